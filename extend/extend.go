// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package extend has the interfaces that modules of others implement, with the types that
// they name. Each is a Caddy module in the namespace that its comment says, registered with
// caddy.RegisterModule and added by `xcaddy build --with`.
package extend

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/compressor"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
)

// Stores of sessions: llm_cache.stores.*
type (
	// Store is the module. What it opens is most easily a sessioncache.Durable over a
	// sessioncache.Backend; the package sessioncache/storetest tests both.
	Store = app.Store
	// KeyProvider is a [Store] that gives the key by which tenants are told apart, so that
	// other processes find the sessions again.
	KeyProvider = app.Secretive
	// Starter is a [Store] that opens something when a configuration starts.
	Starter = app.Beginner
	// Key is a key of 32 bytes.
	Key = secret.Key
)

// Stores of records: llm_cache.audit.*
type (
	// AuditStore is the module.
	AuditStore = app.AuditStore
	// AuditOptions are the options that all of them share. A module embeds them.
	AuditOptions = app.AuditOptions
	// Records stores the records of an [AuditStore], which opens it.
	Records = audit.Store
	// Record is one turn.
	Record = audit.Record
	// RecordSource is a [Records] that can be read again: by reports, and by budgets, which
	// need one.
	RecordSource = audit.Source
	// Prober is a [Records] that opens without its server being reached.
	Prober = audit.Prober
)

// Signer signs requests to an upstream that takes no body but a signed one:
// llm_cache.signers.*
type Signer = upstream.Signer

// Compressors of texts: llm_cache.compressors.*
type (
	// Compressor is the module.
	Compressor = compressor.Compressor
	// CompressorHealth says whether a [Compressor] works, and on which device.
	CompressorHealth = compressor.Health
	// Compressed is the result of a [Compressor].
	Compressed = lingua.Result
	// Word is a word of such a text.
	Word = lingua.Word
)

// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package extend has the interfaces for third-party modules, and the types that they use. Each is a
// Caddy module in the namespace of its comment, registered with caddy.RegisterModule and added by
// `xcaddy build --with`.
package extend

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/compressor"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Stores of sessions: llm_cache.stores.*
type (
	// Store is the module. It opens a sessioncache.Store over a [Backend] of its own.
	Store = app.Store
	// Backend keeps the snapshots of a store. The package sessioncache/storetest tests it.
	Backend = sessioncache.Backend
	// Counters is a [Backend] whose processes share budgets.
	Counters = sessioncache.Counters
	// KeyProvider is a [Store] with the key that tenants are hashed with, so that other processes
	// find the same sessions.
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
	// AuditOptions are the common options of all audit stores. A module embeds them.
	AuditOptions = app.AuditOptions
	// Records stores the records. An [AuditStore] opens it.
	Records = audit.Store
	// Record is one turn.
	Record = audit.Record
	// RecordSource is a [Records] that can be read, as reports and budgets require.
	RecordSource = audit.Source
	// Prober is a [Records] that can be opened before its server is reachable.
	Prober = audit.Prober
)

// Signer signs requests to an upstream that accepts signed bodies only: llm_cache.signers.*
type Signer = upstream.Signer

// Compressors of texts: llm_cache.compressors.*
type (
	// Compressor is the module.
	Compressor = compressor.Compressor
	// CompressorHealth reports whether a [Compressor] works, and on which device.
	CompressorHealth = compressor.Health
	// Compressed is the result of a [Compressor].
	Compressed = lingua.Result
	// Word is a word of such a text.
	Word = lingua.Word
)

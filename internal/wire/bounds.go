// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "errors"

// The reasons why a body is not read. None of them holds any content.
var (
	// ErrSyntax says that the body is not one well-formed JSON object, or is
	// nested too deeply.
	ErrSyntax = errors.New("not a well-formed JSON object")
	// ErrDuplicate says that a body holds a member twice that decides what the
	// request as a whole means, so that two readers could understand it
	// differently.
	ErrDuplicate = errors.New("a member stands twice")
	// ErrShape says that the body is JSON, but not a request of its format.
	ErrShape = errors.New("not a request of this format")
	// ErrCrowded says that the body has more than [MaxElements] entries, or is
	// [rawjson.Crowded] with values.
	ErrCrowded = errors.New("more messages, blocks, parts or values than are read")
	// ErrFormat says that the format is none that this package reads.
	ErrFormat = errors.New("unknown format")
)

// MaxElements bounds the entries of a request that are read: messages, blocks,
// their parts, tools. The longest recorded conversation has 665, one that fills a
// context of a million tokens some ten thousand; each costs us a hundred bytes, and
// some five hundred where it is translated, and the client two.
const MaxElements = 1 << 15

// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "errors"

// The reasons for rejecting a body. None of them contains any content.
var (
	// ErrSyntax reports a body that is not one well-formed JSON object, or is nested too deeply.
	ErrSyntax = errors.New("not a well-formed JSON object")
	// ErrDuplicate reports a duplicate member that changes the meaning of the whole request: two
	// parsers could read such a body differently.
	ErrDuplicate = errors.New("a member stands twice")
	// ErrShape reports a body that is JSON, but no request of its format.
	ErrShape = errors.New("not a request of this format")
	// ErrCrowded reports a body with more than [MaxElements] entries, or a body that is
	// [rawjson.Crowded].
	ErrCrowded = errors.New("more messages, blocks, parts or values than are read")
	// ErrFormat reports a format that is not registered.
	ErrFormat = errors.New("unknown format")
)

// MaxElements is the limit on the entries of one request: messages, blocks, parts and tools. The
// longest recorded conversation has 665 entries, a full context of a million tokens some ten
// thousand. An entry costs us about 100 bytes of memory, 500 with translation, and its client two
// bytes.
const MaxElements = 1 << 15

// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package recording

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/transcript"

// The types of a recording.
type (
	// Header is the first line of a trace: its origin and contents.
	Header = transcript.Header
	// Call is one request of a trace.
	Call = transcript.Call
	// Message is one message of a trace.
	Message = transcript.Message
	// Block is one block of content.
	Block = transcript.Block
	// Trace reads a trace line by line.
	Trace = transcript.Trace
)

// OpenTrace opens a trace, see [transcript.OpenTrace].
func OpenTrace(path string) (*Trace, error) { return transcript.OpenTrace(path) }

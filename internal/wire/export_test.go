// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// Access for the tests of the formats.
const (
	MaxTemplate = maxTemplate
)

// Streams reports whether the decoder is still reading a stream.
func (d *Decoder) Streams() bool { return d.form == answerStream }

// BufferedDocument returns the buffer size of a JSON answer, in bytes.
func (d *Decoder) BufferedDocument() int { return d.text.Cap() }

// Forget drops the event pattern.
func (d *Decoder) Forget() { d.same.Forget() }

// Alike reports whether an event matches the pattern of the previous one.
func (d *Decoder) Alike(data []byte) bool {
	_, ok := d.same.Match(data)
	return ok
}

// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package decode

// What tests of the formats see of this package.
const (
	LongestTemplate = longestTemplate
)

// Streams reports whether the decoder reads on in a stream.
func (d *Decoder) Streams() bool { return d.form == answerStream }

// HeldDocument returns the memory that is held of a JSON answer.
func (d *Decoder) HeldDocument() int { return d.doc.Held() }

// Forget forgets what the last event tells of the next ones.
func (d *Decoder) Forget() { d.same.Forget() }

// Alike reports whether an event is read by the one before.
func (d *Decoder) Alike(data []byte) bool {
	_, ok := d.same.Match(data)
	return ok
}

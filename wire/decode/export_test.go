// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

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
func (d *Decoder) Forget() { d.same = Template{} }

// Alike reports whether an event is read by the one before.
func (d *Decoder) Alike(data []byte) bool {
	_, ok := d.same.text(data)
	return ok
}

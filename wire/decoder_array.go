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

package wire

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// array reads the next bytes of a stream in the form of one JSON array, see
// [Traits.ArrayStreams].
func (d *Decoder) array(p []byte) {
	for d.form == answerArray {
		if d.doc.raw.Len() == 0 { // between two elements
			p = bytes.TrimLeft(p, " \t\r\n,")
			switch {
			case len(p) == 0:
				return
			case p[0] == ']' && d.answer.Ended:
				d.finish()
				return
			case p[0] != '{':
				d.stop()
				return
			}
		}
		rest, ok := d.doc.take(p)
		if !ok {
			d.stop()
			return
		}
		if !d.doc.closed {
			return
		}
		d.element()
		p = rest
	}
}

// element reads an element of an array that has come to its end.
func (d *Decoder) element() {
	text := d.doc.raw.String()
	d.doc = answerDocument{}
	if !Valid(text) {
		d.stop()
		return
	}
	d.codec.Document(&d.answer, gjson.Parse(text))
	if d.answer.Broken || d.answer.Turn.Failed() {
		d.stop()
	}
}

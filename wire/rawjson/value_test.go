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

package rawjson

import "testing"

func TestDecoded(t *testing.T) {
	for in, want := range map[string]string{
		`a\n\"\\\/\u00e9`:  "a\n\"\\/é",
		`\ud83d\ude00`:     "😀",
		`\ud800x`:          `\ud800x`,
		`\ud83d\u0041`:     `\ud83dA`,
		`plain`:            "plain",
		`\b\f\r\t\u0000\\`: "\b\f\r\t\x00\\",
	} {
		if got := Text(in).Decoded(); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

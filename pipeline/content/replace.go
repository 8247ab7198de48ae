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

package content

import (
	"cmp"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// WithText makes a tool result's new content: the text alone, or the text in
// front of the parts that are not text, in the client's own bytes. In some
// formats those stand beside the text, not in it.
func WithText(v *wire.View, b *wire.Block, text string) []byte {
	if !b.Has(wire.FlagMedia) || v.Traits().MediaBesideResult {
		return Quote(text)
	}
	out := append([]byte(`[{"type":"`), cmp.Or(v.Traits().TextType, "text")...)
	out = append(append(append(out, `","text":`...), Quote(text)...), '}')
	gjson.ParseBytes(v.Bytes(b.Body)).ForEach(func(_, part gjson.Result) bool {
		if !IsText(part) {
			out = append(append(out, ','), part.Raw...)
		}
		return true
	})
	return append(out, ']')
}

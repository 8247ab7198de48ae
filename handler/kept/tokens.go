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

package kept

import (
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
	"github.com/caddy-llm-cache/caddy-llm-cache/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Tokens returns about how many tokens the prompt of a request has.
func Tokens(f wire.Format, body []byte) (n int, err error) {
	in := translate.Incoming{Body: body}
	if c, ok := f.Codec().(wire.TokenCounter); ok {
		in.Body, in.Path = c.CountedRequest(body)
	}
	if _, err := translate.Read(f, in); err != nil {
		return 0, fmt.Errorf("counting tokens: %w", err)
	}
	view, err := wire.Parse(f, in.Body, nil)
	if err != nil {
		return len(in.Body) / 4, nil //nolint:nilerr // a request that is not understood goes upstream, too
	}
	for i := range view.Blocks {
		if b := &view.Blocks[i]; !b.Has(wire.FlagDeferred) {
			n += cachemodel.Tokens(view, b)
		}
	}
	return n, nil
}

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

package upstream

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Applied returns next with answers told what was cleared of their prompts on the client's
// order, where the upstream does not know of it. The function returns that, nil for nothing
// to tell, once there is an answer.
func (p *Profile) Applied(next caddyhttp.Handler, client wire.Format, cleared func() *wire.Cleared) caddyhttp.Handler {
	codec, ok := client.Codec().(wire.Manager)
	if !ok {
		return next
	}
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return newEditedAnswer(w, `"message_delta"`, func(out, object []byte, _ bool) []byte {
			told := object
			layer.Guard(p.Log, "telling what was cleared", func() {
				if c := cleared(); c != nil {
					told = codec.Applied(object, *c)
				}
			})
			return append(out, told...)
		}).serve(next, r)
	})
}

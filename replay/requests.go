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

package replay

import (
	"errors"
	"io"

	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
)

// Requests calls each with the requests of a conversation, one after the other, as its
// client sends them to a provider. A part is another session of the client.
func (c *Conversation) Requests(p cachemodel.Profile, each func(part int, body []byte) error) error {
	part := 0
	return c.traces(func(t *Trace) error {
		part++
		var agent client
		for {
			call, err := t.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if agent == nil {
				agent = agents[p.Format].build(p, settle(c, &t.Header, call))
			}
			sign(call.Messages)
			agent.add(call.Messages)
			if err := each(part, agent.body()); err != nil {
				return err
			}
		}
	})
}

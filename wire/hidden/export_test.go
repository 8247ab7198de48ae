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

package hidden

import "github.com/caddy-llm-cache/caddy-llm-cache/wire/decode"

// Remembered returns how much is remembered of the answer that came last.
func (r *Interceptor) Remembered() (blocks, parts int) { return r.m.Begun, len(r.m.Now.Parts) }

// Size returns how many bytes are remembered.
func (r *Interceptor) Size() int { return r.m.size }

// Forget forgets what the last event tells of the next ones.
func (r *Interceptor) Forget() { r.same = decode.Template{} }

// Alike reports whether an event is read by the one before.
func (r *Interceptor) Alike(data []byte) bool {
	_, ok := r.same.Quoted(data)
	return ok
}

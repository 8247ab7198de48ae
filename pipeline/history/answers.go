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

package history

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// AnswersTool reports whether a message answers a call, so that it begins no task.
func AnswersTool(v *wire.View, m *wire.Message) bool {
	for i := m.First; i < m.End; i++ {
		switch v.Blocks[i].Kind {
		case wire.KindToolResult, wire.KindServerTool, wire.KindProgram:
			return true
		}
	}
	return false
}

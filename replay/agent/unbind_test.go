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

package agent

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/replay/recording"
)

// What a compaction carried over is bound to a past that is gone: a client of a
// model that checks it leaves the thinking out.
func TestUnbind(t *testing.T) {
	thinking, text := recording.Block{Type: "thinking"}, recording.Block{Type: "text"}
	messages := []recording.Message{{Content: []recording.Block{thinking, text}}, {Content: []recording.Block{thinking}}}
	shared := messages[0].Content
	Unbind(messages)
	if len(messages[0].Content) != 1 || messages[0].Content[0].Type != "text" || shared[0].Type != "thinking" {
		t.Errorf("%+v", messages[0])
	}
	if len(messages[1].Content) != 1 {
		t.Error("a message of thinking alone was emptied")
	}
}

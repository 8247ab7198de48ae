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

package translate_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// long is an answer with a call longer than anything that is kept.
var long = map[wire.Format][2]string{
	wire.Anthropic: {
		`{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}` + "\n" + `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"b","name":"bash","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"%"}}`,
	},
	wire.OpenAIChat: {
		`{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"b","type":"function","function":{"name":"bash","arguments":""}}]}}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%"}}]}}]}`,
	},
	wire.OpenAIResponses: {
		`{"type":"response.output_item.added","sequence_number":0,"output_index":0,"item":{"type":"function_call","id":"fc","call_id":"b","name":"bash"}}`,
		`{"type":"response.function_call_arguments.delta","sequence_number":1,"output_index":0,"delta":"%"}`,
	},
}

// TestBounds: whatever an upstream sends, no more than so much of it is kept. What
// is held in the client's own format goes to it; a translation ends in an error.
func TestBounds(t *testing.T) {
	text := strings.Repeat("x", 1<<19)
	const pieces = translate.MaxHeld>>19 + 8
	drive := func(t *testing.T, from wire.Format, limit int64, feed func([]byte) []byte) (sent int) {
		t.Helper()
		before := heap()
		event := func(data string) {
			for line := range strings.SplitSeq(data, "\n") {
				sent += len(feed([]byte("data: " + line + "\n\n")))
			}
		}
		event(long[from][0])
		for range pieces {
			event(strings.Replace(long[from][1], "%", text, 1))
		}
		if n := heap() - before; n > limit {
			t.Errorf("%d MiB are kept", n>>20)
		}
		return sent
	}
	for from := range long {
		t.Run(string(from), func(t *testing.T) {
			h := translate.NewHold(from, false)
			sent := drive(t, from, 24<<20, h.Feed)
			sent += len(h.Close(false))
			if sent < pieces*len(text) {
				t.Errorf("%d bytes of %d", sent, pieces*len(text))
			}
			runtime.KeepAlive(h)
		})
		for _, to := range translate.Formats() {
			if to == from {
				continue
			}
			t.Run(string(from)+" to "+string(to), func(t *testing.T) {
				s := translate.NewStream(from, to, &translate.Answering{Stream: true, Seed: "s", BufferCalls: true})
				drive(t, from, 3*translate.MaxHeld, s.Feed)
				if !s.Ended() {
					t.Error("an answer without an end is kept")
				}
				runtime.KeepAlive(s)
			})
		}
	}
}

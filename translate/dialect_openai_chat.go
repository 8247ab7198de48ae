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

package translate

type chatDialect struct{}

func (chatDialect) rules() rules {
	return rules{
		params: [paramCount]string{
			MaxTokens: "max_completion_tokens", Temperature: "temperature", TopP: "top_p", Seed: "seed", PresencePenalty: "presence_penalty",
			FrequencyPenalty: "frequency_penalty", UserID: "user", ServiceTier: "service_tier", CacheKey: "prompt_cache_key", Verbosity: "verbosity",
		},
		reasoning: "reasoning_effort", output: "response_format", parallel: "parallel_tool_calls", choice: "tool_choice",
		strict: "tools[].function.strict", thinking: "messages[].reasoning_content", markerInSystem: "messages[].content[].cache_control",
		nameLimit: 64, idLimit: 40, idPrefix: "chatcmpl", narrowsOfficial: true, longestUser: 64,
		headers: openAIHeaders, provider: "openai", faults: openAIFaults,
	}
}

func (chatDialect) read(r *reader, body raw, _ Incoming) error { return r.chat(body) }

func (chatDialect) write(w *writer) error { return w.chat() }

func (chatDialect) samples(w *writer, _ Param) bool { return openAISamples(w) }

func (chatDialect) tier(w *writer, name string) raw { return openAITier(w, name) }

func (chatDialect) keepsSystem(w *writer) bool { return w.o.Official }

func (chatDialect) endsWithUser(*writer) bool { return false }

func (chatDialect) reader() answerReader { return new(chatReader) }

func (chatDialect) writer(f *flow, out *output) answerWriter {
	return &chatWriter{output: out, flow: f}
}

func (chatDialect) appendWhole(dst []byte, c *collected) []byte { return appendChat(dst, c) }

func (chatDialect) holder(joined bool) holder { return &chatHolder{joined: joined} }

func (chatDialect) appendFailure(b []byte, f *Failure, w words, text string) []byte {
	return appendOpenAIFailure(b, f, w, text)
}

func (chatDialect) tooLong(message string, tokens, limit int64) string {
	return openAITooLong(message, tokens, limit)
}

func (chatDialect) endpoint(prefix, _ string, _ bool) (string, string) {
	return prefix + "/v1/chat/completions", ""
}

func (chatDialect) prefix(path string) string {
	return before(path, "/v1/chat/completions", "/chat/completions")
}

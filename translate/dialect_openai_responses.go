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

type responsesDialect struct{}

func (responsesDialect) rules() rules {
	return rules{
		params: [paramCount]string{
			MaxTokens: "max_output_tokens", Temperature: "temperature", TopP: "top_p", UserID: "user", ServiceTier: "service_tier",
			CacheKey: "prompt_cache_key", Verbosity: "text.verbosity",
		},
		reasoning: "reasoning.effort", output: "text.format", parallel: "parallel_tool_calls", choice: "tool_choice",
		strict: "tools[].strict", thinking: "input[].encrypted_content", marker: "input[].content[].prompt_cache_breakpoint",
		nameLimit: 64, idLimit: 64, idPrefix: "resp", narrowsOfficial: true, longestUser: 64, leastTokens: 16, endsThinking: true,
		headers: openAIHeaders, provider: "openai", faults: openAIFaults,
	}
}

func (responsesDialect) read(r *reader, body raw, _ Incoming) error { return r.responses(body) }

func (responsesDialect) write(w *writer) error { return w.responses() }

func (responsesDialect) samples(w *writer, _ Param) bool { return openAISamples(w) }

func (responsesDialect) tier(w *writer, name string) raw { return openAITier(w, name) }

func (responsesDialect) keepsSystem(w *writer) bool { return w.o.Official }

func (responsesDialect) endsWithUser(*writer) bool { return false }

func (responsesDialect) reader() answerReader { return new(responsesReader) }

func (responsesDialect) writer(f *flow, out *output) answerWriter {
	return &responsesWriter{output: out, collected: collected{flow: f}}
}

func (responsesDialect) appendWhole(dst []byte, c *collected) []byte {
	return appendResponse(dst, c, "")
}

func (responsesDialect) holder(bool) holder { return new(responsesHolder) }

func (responsesDialect) appendFailure(b []byte, f *Failure, w words, text string) []byte {
	return appendOpenAIFailure(b, f, w, text)
}

func (responsesDialect) tooLong(message string, tokens, limit int64) string {
	return openAITooLong(message, tokens, limit)
}

func (responsesDialect) endpoint(prefix, _ string, _ bool) (string, string) {
	return prefix + "/v1/responses", ""
}

func (responsesDialect) prefix(path string) string {
	return before(path, "/v1/responses", "/responses")
}

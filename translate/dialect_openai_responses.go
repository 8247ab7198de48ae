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

func (responsesDialect) Rules() Rules {
	return Rules{
		Params: [ParamCount]string{
			MaxTokens: "max_output_tokens", Temperature: "temperature", TopP: "top_p", UserID: "user", ServiceTier: "service_tier",
			CacheKey: "prompt_cache_key", Verbosity: "text.verbosity",
		},
		Reasoning: "reasoning.effort", Output: "text.format", Parallel: "parallel_tool_calls", Choice: "tool_choice",
		Strict: "tools[].strict", Thinking: "input[].encrypted_content", Marker: "input[].content[].prompt_cache_breakpoint",
		NameLimit: 64, IDLimit: 64, IDPrefix: "resp", NarrowsOfficial: true, LongestUser: 64, LeastTokens: 16, EndsThinking: true,
		Headers: openAIHeaders, Provider: "openai", Faults: openAIFaults,
	}
}

func (responsesDialect) ReadRequest(r *Reader, body Value, _ Incoming) error {
	return r.responses(body)
}

func (responsesDialect) WriteRequest(w *Writer) error { return w.responses() }

func (responsesDialect) Samples(w *Writer, _ Param) bool { return openAISamples(w) }

func (responsesDialect) Tier(w *Writer, name string) Value { return openAITier(w, name) }

func (responsesDialect) KeepsSystem(w *Writer) bool { return w.Options.Official }

func (responsesDialect) EndsWithUser(*Writer) bool { return false }

func (responsesDialect) AnswerReader() AnswerReader { return new(responsesReader) }

func (responsesDialect) AnswerWriter(f *Flow, out *Buffer) AnswerWriter {
	return &responsesWriter{Buffer: out, Collected: Collected{Flow: f}}
}

func (responsesDialect) AppendAnswer(dst []byte, c *Collected) []byte {
	return appendResponse(dst, c, "")
}

func (responsesDialect) Holder(bool) Holder { return new(responsesHolder) }

func (responsesDialect) AppendFailure(b []byte, f *Failure, w Words, text string) []byte {
	return appendFailure(b, f, w, text)
}

func (responsesDialect) TooLong(message string, tokens, limit int64) string {
	return openAITooLong(message, tokens, limit)
}

func (responsesDialect) Endpoint(prefix, _ string, _ bool) (string, string) {
	return prefix + "/v1/responses", ""
}

func (responsesDialect) Prefix(path string) string {
	return Before(path, "/v1/responses", "/responses")
}

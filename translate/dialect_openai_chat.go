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

func (chatDialect) Rules() Rules {
	return Rules{
		Params: [ParamCount]string{
			MaxTokens: "max_completion_tokens", Temperature: "temperature", TopP: "top_p", Seed: "seed", PresencePenalty: "presence_penalty",
			FrequencyPenalty: "frequency_penalty", UserID: "user", ServiceTier: "service_tier", CacheKey: "prompt_cache_key", Verbosity: "verbosity",
		},
		Reasoning: "reasoning_effort", Output: "response_format", Parallel: "parallel_tool_calls", Choice: "tool_choice",
		Strict: "tools[].function.strict", Thinking: "messages[].reasoning_content", MarkerInSystem: "messages[].content[].cache_control",
		NameLimit: 64, IDLimit: 40, IDPrefix: "chatcmpl", NarrowsOfficial: true, LongestUser: 64,
		Headers: openAIHeaders, Provider: "openai", Faults: openAIFaults,
	}
}

func (chatDialect) ReadRequest(r *Reader, body Value, _ Incoming) error { return r.chat(body) }

func (chatDialect) WriteRequest(w *Writer) error { return w.chat() }

func (chatDialect) Samples(w *Writer, _ Param) bool { return openAISamples(w) }

func (chatDialect) Tier(w *Writer, name string) Value { return openAITier(w, name) }

func (chatDialect) KeepsSystem(w *Writer) bool { return w.Options.Official }

func (chatDialect) EndsWithUser(*Writer) bool { return false }

func (chatDialect) AnswerReader() AnswerReader { return new(chatReader) }

func (chatDialect) AnswerWriter(f *Flow, out *Buffer) AnswerWriter {
	return &chatWriter{Buffer: out, flow: f}
}

func (chatDialect) AppendAnswer(dst []byte, c *Collected) []byte { return appendChat(dst, c) }

func (chatDialect) Holder(joined bool) Holder { return &chatHolder{joined: joined} }

func (chatDialect) AppendFailure(b []byte, f *Failure, w Words, text string) []byte {
	return appendFailure(b, f, w, text)
}

func (chatDialect) TooLong(message string, tokens, limit int64) string {
	return openAITooLong(message, tokens, limit)
}

func (chatDialect) Endpoint(prefix, _ string, _ bool) (string, string) {
	return prefix + "/v1/chat/completions", ""
}

func (chatDialect) Prefix(path string) string {
	return Before(path, "/v1/chat/completions", "/chat/completions")
}

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

package wire

import "strings"

// The methods of the Gemini API that ask a model for an answer. They stand
// behind the model in the path: …/models/{model}:generateContent. Counting
// tokens, embedding and everything else have methods of their own.
const (
	geminiWhole  = "generateContent"
	geminiStream = "streamGenerateContent"
)

// GeminiPath takes the path of a Gemini request apart: what stands before the
// model's name, the model, and whether the answer is to be streamed. It reads
// the forms of the Gemini API, of Vertex AI and of tuned models:
// /v1beta/models/M:generateContent,
// /v1/projects/P/locations/L/publishers/google/models/M:streamGenerateContent,
// …/tunedModels/M:…, …/endpoints/E:…. It reports false for any other path.
func GeminiPath(path string) (base, model string, stream, ok bool) {
	at := strings.LastIndexByte(path, '/') + 1
	base = path[:at]
	model, method, _ := strings.Cut(path[at:], ":")
	if model == "" || method != geminiWhole && method != geminiStream {
		return "", "", false, false
	}
	for _, parent := range [...]string{"/models/", "/tunedModels/", "/endpoints/"} {
		if strings.HasSuffix(base, parent) {
			return base, model, method == geminiStream, true
		}
	}
	return "", "", false, false
}

// Address tells a view what the path of its request says and the body does not:
// in the Gemini format, the model and whether the answer is to be streamed. In
// other formats it changes nothing. It must be called before the view is
// shared.
func (v *View) Address(path string) {
	if v.Format != Gemini {
		return
	}
	if _, model, stream, ok := GeminiPath(path); ok {
		v.Model, v.Stream = model, stream
	}
}

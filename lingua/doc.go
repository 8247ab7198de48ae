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

// Package lingua shortens prose by leaving out words, as LLMLingua-2 does: a
// small encoder reads the text and tells of each token how likely it is to
// matter, and the words that matter least go.
//
// It reads models as Hugging Face lays them out (config.json, tokenizer.json,
// model.safetensors), token classifiers of BERT and XLM-RoBERTa, and needs
// nothing but Go: tokenizers and encoder are its own. What it makes of a text
// is, word for word, what the reference implementation (microsoft/LLMLingua)
// makes of it; testdata holds what that said.
//
// A model costs about a second of one core for 512 tokens. It has no place
// before a request.
package lingua

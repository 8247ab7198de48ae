// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

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

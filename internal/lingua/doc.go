// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package lingua shortens prose by dropping words, as LLMLingua-2 does: a small encoder estimates
// for each token the probability that it matters, and the least important words go.
//
// The package reads models in Hugging Face's layout (config.json, tokenizer.json,
// model.safetensors): token classifiers of BERT and XLM-RoBERTa. Tokenizers and encoder are written
// in Go, without further dependencies. The output equals the reference implementation's
// (microsoft/LLMLingua) word for word; testdata has recorded outputs of the reference.
//
// A model takes about a second of one core for 512 tokens. Never run it while a request waits.
package lingua

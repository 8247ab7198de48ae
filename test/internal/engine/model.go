// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
)

// The model is a transformer of a quarter of a million random weights. It is so small that a
// processor reads tens of thousands of tokens in seconds. Its answers are noise, but its cache is
// as real as any model's.
const (
	embedding   = 64
	heads       = 1
	keyHeads    = 1
	feedForward = 128
	headSize    = embedding / heads
	merges      = 1500
	window      = 512
	longest     = 131072
)

// WriteModel writes a model in GGUF with a tokenizer for a text. With sliding set, attention sees a
// window only, so that the cache cannot be cut back to an earlier position.
func WriteModel(to io.Writer, text string, sliding bool, layers int) error {
	tokens, kinds := []string{}, []int32{}
	token := func(s string, kind int32) {
		tokens, kinds = append(tokens, s), append(kinds, kind)
	}
	for _, name := range alphabet() {
		token(name, tokenNormal)
	}
	rules := make([]string, 0, merges)
	for _, m := range vocabulary(text) {
		rules = append(rules, m.left+" "+m.right)
		token(m.left+m.right, tokenNormal)
	}
	special := uint32(len(tokens))
	for _, s := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"} {
		token(s, tokenControl)
	}
	for _, s := range []string{"<tool_call>", "</tool_call>", "<think>", "</think>"} {
		token(s, tokenOwn)
	}

	f := &gguf{}
	arch := "llama"
	if sliding {
		arch = "gemma3"
	}
	f.set("general.architecture", arch)
	f.set("general.name", "tiny-random")
	f.set("general.file_type", uint32(0))
	f.set(arch+".context_length", uint32(longest))
	f.set(arch+".embedding_length", uint32(embedding))
	f.set(arch+".block_count", uint32(layers))
	f.set(arch+".feed_forward_length", uint32(feedForward))
	f.set(arch+".attention.head_count", uint32(heads))
	f.set(arch+".attention.head_count_kv", uint32(keyHeads))
	f.set(arch+".rope.dimension_count", uint32(headSize))
	f.set(arch+".vocab_size", uint32(len(tokens)))
	f.set(arch+".attention.layer_norm_rms_epsilon", float32(1e-5))
	if sliding {
		f.set(arch+".attention.sliding_window", uint32(window))
		f.set(arch+".attention.key_length", uint32(headSize))
		f.set(arch+".attention.value_length", uint32(headSize))
	}
	f.set("tokenizer.ggml.model", "gpt2")
	f.set("tokenizer.ggml.pre", "qwen2")
	f.set("tokenizer.ggml.tokens", tokens)
	f.set("tokenizer.ggml.token_type", kinds)
	f.set("tokenizer.ggml.merges", rules)
	f.set("tokenizer.ggml.bos_token_id", special)
	f.set("tokenizer.ggml.eos_token_id", special+2)
	f.set("tokenizer.ggml.padding_token_id", special)
	f.set("tokenizer.ggml.add_bos_token", false)

	weights(f, uint64(len(tokens)), sliding, layers)
	return f.write(to)
}

func weights(f *gguf, vocabulary uint64, sliding bool, layers int) {
	random := rand.New(rand.NewPCG(42, 42)) //nolint:gosec // must repeat
	noise := func(deviation float64) func() float32 {
		return func() float32 { return float32(random.NormFloat64() * deviation) }
	}
	one := func() float32 { return 1 }
	deviation := 1 / math.Sqrt(embedding)
	f.tensor("token_embd.weight", noise(1), embedding, vocabulary)
	for l := range layers {
		name := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", l, s) }
		f.tensor(name("attn_norm"), one, embedding)
		f.tensor(name("attn_q"), noise(deviation), embedding, embedding)
		f.tensor(name("attn_k"), noise(deviation), embedding, keyHeads*headSize)
		f.tensor(name("attn_v"), noise(deviation), embedding, keyHeads*headSize)
		f.tensor(name("attn_output"), noise(deviation/2), embedding, embedding)
		if sliding {
			f.tensor(name("attn_q_norm"), one, headSize)
			f.tensor(name("attn_k_norm"), one, headSize)
			f.tensor(name("post_attention_norm"), one, embedding)
			f.tensor(name("post_ffw_norm"), one, embedding)
		}
		f.tensor(name("ffn_norm"), one, embedding)
		f.tensor(name("ffn_gate"), noise(deviation), embedding, feedForward)
		f.tensor(name("ffn_up"), noise(deviation), embedding, feedForward)
		f.tensor(name("ffn_down"), noise(0.5/math.Sqrt(feedForward)), feedForward, embedding)
	}
	f.tensor("output_norm.weight", one, embedding)
	f.tensor("output.weight", noise(deviation), embedding, vocabulary)
}

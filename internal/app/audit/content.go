// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Content is the text of a turn.
type Content struct {
	// Prompt is the body of the client's request, after content decoding.
	Prompt json.RawMessage `json:"prompt"`
	// Answer is the model's response as JSON: text, thinking and tool calls.
	Answer json.RawMessage `json:"answer"`
}

func (c *Content) size() int {
	if c == nil {
		return 0
	}
	return len(c.Prompt) + len(c.Answer)
}

var encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
})

var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
})

func pack(text []byte) ([]byte, error) {
	e, err := encoder()
	if err != nil {
		return nil, fmt.Errorf("audit: compressing content: %w", err)
	}
	return e.EncodeAll(text, nil), nil
}

func unpack(packed []byte) ([]byte, error) {
	d, err := decoder()
	if err == nil {
		packed, err = d.DecodeAll(packed, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("audit: decompressing content: %w", err)
	}
	return packed, nil
}

func unpacked(prompt, answer []byte) (*Content, error) {
	prompt, err := unpack(prompt)
	if err != nil {
		return nil, err
	}
	answer, err = unpack(answer)
	if err != nil {
		return nil, err
	}
	return &Content{Prompt: prompt, Answer: answer}, nil
}

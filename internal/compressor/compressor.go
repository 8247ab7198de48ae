// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package compressor holds what shortens prose by leaving out words: guest
// modules in the namespace llm_cache.compressors, and the command that shows
// what they do to a text.
package compressor

import (
	"context"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua"
)

// Compressor is a guest module in the namespace llm_cache.compressors. It is
// safe for concurrent use, and may take seconds.
type Compressor interface {
	// Compress keeps about so large a part of a text's tokens, over 0 and up to
	// 1. What it makes of a text is always the same.
	Compress(ctx context.Context, text string, rate float64) (lingua.Result, error)

	// Health tells what computes and whether it can.
	Health(ctx context.Context) Health
}

// Health is how a compressor fares.
type Health struct {
	// Device is what computes: "CPU, AVX2, float32", or what a server says of
	// itself, such as "cuda", "mps" or "cpu".
	Device string `json:"device,omitempty"`
	// Model is the model's folder, or what a server calls its own.
	Model string `json:"model,omitempty"`
	// Error is why it cannot compute.
	Error string `json:"error,omitempty"`
}

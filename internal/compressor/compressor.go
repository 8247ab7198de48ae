// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package compressor shortens prose by dropping words. It has the guest modules of the namespace
// llm_cache.compressors, and the command that shows their effect on a text.
package compressor

import (
	"context"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua"
)

// Compressor is a guest module in the namespace llm_cache.compressors. It is safe for concurrent
// use, and may take seconds.
type Compressor interface {
	// Compress keeps about the given part of a text's tokens, over 0 and up to 1. Equal input
	// always yields equal output.
	Compress(ctx context.Context, text string, rate float64) (lingua.Result, error)

	// Health reports the computing device, and an error if the compressor cannot run.
	Health(ctx context.Context) Health
}

// Health is the state of a compressor.
type Health struct {
	// Device is the computing device: "CPU, AVX2, float32", or a server's own name for its device,
	// such as "cuda", "mps" or "cpu".
	Device string `json:"device,omitempty"`
	// Model is the model's folder, or a server's own name for its model.
	Model string `json:"model,omitempty"`
	// Error is the reason why the compressor cannot run.
	Error string `json:"error,omitempty"`
}

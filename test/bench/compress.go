// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/conversation"
)

// errModel says that the compress table needs a model.
var errModel = errors.New("no -model is given: a folder as Hugging Face lays it out")

// errIdle says that the worker had no texts to compress.
var errIdle = errors.New("the worker has looked at no text")

// compress measures the cost of background compression: throughput with the stage off and on, for
// conversations with results in prose.
func (b *bench) compress(ctx context.Context) error {
	if b.model == "" {
		return errModel
	}
	model, err := filepath.Abs(b.model)
	if err != nil {
		return err
	}
	var targets []*target
	for name, option := range []string{"off", "on"} {
		policy := "cost_aware"
		if option == "on" {
			policy += "\n\t\tcompress lingua2 {\n\t\t\tmodel " + model + "\n\t\t}"
		}
		t, err := startTarget(ctx, b.binary, filepath.Join(b.dir, fmt.Sprint("compress ", name)), policy, "", b.upstream.addr)
		if err != nil {
			return err
		}
		defer t.stop()
		t.name = option
		targets = append(targets, t)
	}
	loads := b.loads
	defer func() { b.loads = loads }()
	b.loads = nil
	for _, l := range loads {
		if l.size == conversation.Agent {
			l.name, l.size.Prose = l.name+" of prose", true
			b.loads = append(b.loads, l)
		}
	}
	if err := b.race(ctx, fmt.Sprintf("Compress, %d connections", connections), "ratio to off", targets,
		longTurns); err != nil {
		return err
	}
	looked, err := targets[1].looked(ctx)
	if err == nil && looked == 0 {
		err = errIdle
	}
	fmt.Printf("\ntexts that the worker has looked at: %.0f\n", looked)
	return err
}

// looked returns the number of texts that the target's worker has processed.
func (t *target) looked(ctx context.Context) (sum float64, err error) {
	lines, err := t.metrics(ctx)
	if err != nil {
		return 0, err
	}
	for _, line := range lines {
		s, ok := strings.CutPrefix(line, "caddy_llm_cache_compress_texts_total{outcome=\"")
		outcome, value, _ := strings.Cut(s, "\"} ")
		if !ok || outcome != "shortened" && outcome != "left" {
			continue
		}
		var n float64
		if _, err := fmt.Sscan(value, &n); err != nil {
			return 0, fmt.Errorf("metrics: %w", err)
		}
		sum += n
	}
	return sum, nil
}

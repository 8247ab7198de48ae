// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/clock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/compressor"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua"
)

// Words is the result of compression. The worker finishes before the next request, as if it were
// always fast enough.
type Words struct {
	// Blocks is the number of blocks of the longest request, Texts the number of compressed ones.
	Blocks int `json:"blocks"`
	// Texts: see Blocks.
	Texts int `json:"texts"`
	// Tokens is the estimate of the tokens removed from prompts, summed over the requests.
	Tokens int64 `json:"tokens"`
}

func (w *Words) add(o *Words) {
	w.Blocks += o.Blocks
	w.Texts += o.Texts
	w.Tokens += o.Tokens
}

type scorer struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	of     compressor.Compressor
	name   string
	known  map[[sha256.Size]byte]lingua.Result
}

func (o *Options) leaveOut(h *handler.Handler, c clock.Clock) (*compressor.Worker, error) {
	words, ok := h.Feature("compress").(*compressor.Options)
	if !ok || words.CompressorRaw == nil {
		return nil, nil
	}
	s := o.scorer
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.name = string(words.CompressorRaw)
		ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
		if err := words.Load(ctx); err != nil {
			cancel()
			return nil, fmt.Errorf("replay: options of the handler: compress: %w", err)
		}
		s.of, s.cancel, s.known = words.Compressor(), cancel, make(map[[sha256.Size]byte]lingua.Result)
	}
	w := compressor.NewWorker(s, c)
	words.Use(w, s.name)
	return w, nil
}

func (s *scorer) release() {
	if s.cancel != nil {
		s.cancel()
	}
}

// Compress implements compressor.Compressor. Results are cached for all arms.
func (s *scorer) Compress(ctx context.Context, text string, rate float64) (lingua.Result, error) {
	key := sha256.Sum256([]byte(strconv.FormatFloat(rate, 'g', -1, 64) + " " + text))
	s.mu.Lock()
	r, ok := s.known[key]
	s.mu.Unlock()
	if ok {
		return r, nil
	}
	r, err := s.of.Compress(ctx, text, rate)
	if err != nil {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[key] = r
	return r, nil
}

// Health implements compressor.Compressor.
func (s *scorer) Health(ctx context.Context) compressor.Health { return s.of.Health(ctx) }

func (a *arm) words(c *request, w *sink) error {
	if a.worker == nil {
		return nil
	}
	a.clock.advance(a.clock.Now())
	if err := a.worker.Health().Error; err != "" {
		return fmt.Errorf("replay: the compressor: %s", err)
	}
	r := &a.result.Words
	r.Blocks = max(r.Blocks, len(c.view.MessageBlocks()))
	for field := range strings.SplitSeq(w.header.Get("X-Llm-Cache-Compressed"), ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		n, _ := strconv.Atoi(value)
		switch name {
		case "texts":
			r.Texts = max(r.Texts, n)
		case "saved_tokens":
			r.Tokens += int64(n)
		}
	}
	return nil
}

func (r *Combination) writeWords(w io.Writer) {
	if t := &r.Total.Words; t.Blocks > 0 {
		fmt.Fprintf(w, "words were left out of %d of %d blocks (%.2f %%), which shortens prompts by %s tokens (%.2f %%)\n",
			t.Texts, t.Blocks, 100*Ratio(float64(t.Texts), float64(t.Blocks)),
			thousands(t.Tokens), 100*Ratio(float64(t.Tokens), float64(r.Total.Base.Prompt())))
	}
}

// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
)

// Embedded runs an LLMLingua-2 model in the process, on the CPU. It reads model folders in Hugging
// Face's layout, and downloads nothing.
type Embedded struct {
	// Model is the folder with config.json, tokenizer.json and model.safetensors: a token
	// classifier of BERT or XLM-RoBERTa.
	Model string `json:"model"`
	// Int8 keeps the weights in 8 bits. That takes a quarter of the memory and, on CPUs with
	// AVX-512 VNNI, a fraction of the time. The kept words differ slightly. Default: false.
	Int8 bool `json:"int8,omitempty"`
	// Threads is the number of cores for one text. Default: 1.
	Threads int `json:"threads,omitempty"`

	share *shared.Share[*loadedModel]
}

// models are the loaded models, shared across reloads.
var models = shared.NewPool[*loadedModel]()

// loadedModel is a model that is read on first use.
type loadedModel struct {
	shared.Pins
	mu     sync.RWMutex // locked for reading while the model runs
	open   func() (*lingua.Model, error)
	closed bool
}

var errClosed = errors.New("the model is closed")

func (l *loadedModel) use(f func(*lingua.Model) error) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	// A text may still be in work when its configuration ends.
	if l.closed {
		return errClosed
	}
	m, err := l.open()
	if err != nil {
		return err
	}
	return f(m)
}

// Close implements [shared.Value]. It waits for runs in progress.
func (l *loadedModel) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed = true; l.open == nil {
		return nil
	}
	m, err := l.open()
	if err != nil {
		return nil
	}
	return m.Close()
}

// CaddyModule returns the Caddy module information.
func (Embedded) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.compressors.embedded", New: func() caddy.Module { return new(Embedded) }}
}

// Provision checks the model's folder. The weights are read on first use.
func (e *Embedded) Provision(caddy.Context) error {
	if e.Model == "" {
		return errors.New("model: the folder is missing")
	}
	if e.Threads < 0 || e.Threads > 256 {
		return fmt.Errorf("threads: %d is out of range", e.Threads)
	}
	folder, err := filepath.Abs(e.Model)
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if err := lingua.Check(folder); err != nil {
		return err
	}
	o := lingua.Options{Int8: e.Int8, Threads: e.Threads}
	// Configurations with the same model and options share the loaded model.
	e.share, err = models.Share(fmt.Sprintf("%s %+v", folder, o), func() (*loadedModel, error) {
		return &loadedModel{open: sync.OnceValues(func() (*lingua.Model, error) { return lingua.Open(folder, o) })}, nil
	})
	return err
}

// Cleanup releases the model.
func (e *Embedded) Cleanup() error { return e.share.Release() }

// Compress implements Compressor.
func (e *Embedded) Compress(ctx context.Context, text string, rate float64) (lingua.Result, error) {
	var r lingua.Result
	err := e.share.Of.use(func(m *lingua.Model) (err error) {
		r, err = m.Compress(ctx, text, lingua.Compression{Rate: rate})
		return err
	})
	return r, err
}

// Health implements Compressor. It reads the model if need be.
func (e *Embedded) Health(context.Context) Health {
	h := Health{Model: e.Model}
	err := e.share.Of.use(func(m *lingua.Model) error {
		h.Device = m.Device()
		return nil
	})
	if err != nil {
		h.Error = err.Error()
	}
	return h
}

// UnmarshalCaddyfile sets the compressor up from Caddyfile tokens. Syntax:
//
//	embedded {
//		model   <folder>
//		int8
//		threads <cores>
//	}
func (e *Embedded) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return d.ArgErr()
	}
	return option.Block(d, "embedded", e.options())
}

func (e *Embedded) options() option.Options {
	// The block of compress lingua2 has these options, too.
	return option.Options{
		"model": option.Once(func() bool { return e.Model != "" }, option.Word(&e.Model)),
		"int8": func(d *caddyfile.Dispenser) error {
			if d.NextArg() {
				return d.ArgErr()
			}
			e.Int8 = true
			return nil
		},
		"threads": option.Count(&e.Threads),
	}
}

// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/clock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// Options have words dropped from old prose, by LLMLingua-2. A worker chooses the words after
// responses, one text at a time, in a share of a core, so that no request waits. A result is used
// where the upstream reads a text again in any case, because its cache entry has expired or an
// earlier block was folded. The result then stays for the rest of the conversation.
//
// The last four turns, errors, calls, and the user's own texts keep all their words. Other texts
// keep code, lists of results, diffs and JSON, and names, numbers and negations. The expand tool,
// where declared, returns the original. Results are stored with the folded texts: in memory, and on
// disk where the app has `originals`.
type Options struct {
	// CompressorRaw is the module that chooses the words to drop.
	CompressorRaw json.RawMessage `json:"compressor,omitempty" caddy:"namespace=llm_cache.compressors inline_key=module"`
	// Rate is the part of the tokens of prose to keep, over 0 and below 1. Names, numbers and
	// negations are kept in addition. Default: 0.5.
	Rate float64 `json:"rate,omitempty"`
	// MinChars is the minimum number of characters of prose in a text to shorten. Default: 200.
	MinChars int `json:"min_chars,omitempty"`
	// Kinds are the kinds of texts to shorten: `results` of tools other than the following; `files`
	// that were read; `output` of commands and searches; `answers` of the model itself, where the
	// expand tool is declared. Default: results.
	Kinds []pipeline.Prose `json:"kinds,omitempty"`
	// Share is the part of a core for the worker, over 0 and up to 1. It takes less while requests
	// come. Default: 0.25.
	Share float64 `json:"share,omitempty"`
	// Queue bounds all waiting texts together, in bytes; one credential may fill a quarter. Texts
	// beyond it are not shortened. At least 65536. Default: 4194304 (4 MiB).
	Queue int64 `json:"queue,omitempty"`

	key        string
	compressor Compressor
	worker     *Worker
	share      *shared.Share[*Worker] // of the worker
}

// The defaults of [Options].
const (
	defaultRate     = 0.5
	defaultMinChars = 200
	defaultShare    = 0.25
	defaultQueue    = 4 << 20
	smallestQueue   = 64 << 10
)

// Validate reports the first invalid option. Without any, no words are left out.
func (o *Options) Validate() error {
	if o.CompressorRaw == nil && o.compressor == nil && o.worker == nil &&
		(o.Rate != 0 || o.MinChars != 0 || o.Kinds != nil || o.Share != 0 || o.Queue != 0) {
		return errors.New("compress: no compressor is given")
	}
	if err := o.check(); err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	return nil
}

// check validates each option by itself.
func (o *Options) check() error {
	switch {
	case o.Rate != 0 && !(o.Rate > 0 && o.Rate < 1):
		return fmt.Errorf("rate must be in (0, 1), got %v", o.Rate)
	case o.MinChars < 0 || o.MinChars > 1<<20:
		return fmt.Errorf("min_chars must be between 1 and %d, got %d", 1<<20, o.MinChars)
	case o.Share != 0 && !(o.Share > 0 && o.Share <= 1):
		return fmt.Errorf("share must be in (0, 1], got %v", o.Share)
	case o.Queue != 0 && o.Queue < smallestQueue:
		return fmt.Errorf("queue: %d is below %d bytes", o.Queue, smallestQueue)
	}
	return pipeline.CheckProse(o.Kinds)
}

// Provision loads the compressor and its worker, shared across reloads.
func (o *Options) Provision(ctx caddy.Context) error {
	if err := o.Validate(); err != nil || o.CompressorRaw == nil {
		return err
	}
	if err := o.Load(ctx); err != nil {
		return err
	}
	var err error
	if o.share, err = workersOf(shared.Of(ctx)).Share(o.key, func() (*Worker, error) {
		return newWorker(clock.Machine),
			nil
	}); err != nil {
		return err
	}
	o.worker = o.share.Of
	o.worker.mu.Lock()
	defer o.worker.mu.Unlock()
	o.worker.serving = append(o.worker.serving, o.compressor)
	o.worker.share, o.worker.queue.limit = cmp.Or(o.Share, defaultShare), cmp.Or(o.Queue, defaultQueue)
	return nil
}

// Load loads the compressor alone.
func (o *Options) Load(ctx caddy.Context) error {
	o.key = string(o.CompressorRaw)
	v, err := ctx.LoadModule(o, "CompressorRaw")
	if err != nil {
		return fmt.Errorf("loading the compressor: %w", err)
	}
	c, ok := v.(Compressor)
	if !ok {
		return fmt.Errorf("loading the compressor: %T shortens nothing", v)
	}
	o.compressor = c
	return nil
}

// Compressor returns the loaded compressor.
func (o *Options) Compressor() Compressor { return o.compressor }

// Use makes the caller's worker shorten texts, instead of Provision. The name stands for its compressor.
func (o *Options) Use(w *Worker, name string) { o.worker, o.key = w, name }

// Cleanup releases the worker.
func (o *Options) Cleanup() error {
	if o.share == nil {
		return nil
	}
	w := o.worker
	w.mu.Lock()
	// The worker must not use the compressor of a configuration that has ended.
	if i := slices.Index(w.serving, o.compressor); i >= 0 {
		w.serving = slices.Delete(w.serving, i, i+1)
	}
	w.mu.Unlock()
	o.worker = nil
	return o.share.Release()
}

// name identifies results by compressor and rate.
func (o *Options) name() string { return fmt.Sprintf("words %v %s", o.rate(), o.key) }

// kinds returns the kinds of texts to shorten.
func (o *Options) kinds() []pipeline.Prose {
	if len(o.Kinds) == 0 {
		return []pipeline.Prose{pipeline.ProseResults}
	}
	return o.Kinds
}

func (o *Options) rate() float64 { return cmp.Or(o.Rate, defaultRate) }

func (o *Options) stage() *pipeline.Compress {
	return &pipeline.Compress{MinBytes: cmp.Or(o.MinChars, defaultMinChars), Kinds: o.kinds()}
}

// UnmarshalCaddyfile sets the stage up from Caddyfile tokens. Syntax:
//
//	compress lingua2 {
//		model     <folder>
//		int8
//		threads   <cores>
//		compressor <compressor> ...
//		rate      <part>
//		min_chars <characters>
//		kinds     results|files|output|answers...
//		share     <part of a core>
//		queue     <size>
//	}
//
// The compressor embedded runs the model; compressor names another one, with its options.
func (o *Options) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	var method string
	if !d.AllArgs(&method) {
		return d.ArgErr()
	}
	if method != "lingua2" {
		return d.Errf("compress: %q is not lingua2", method)
	}
	var e Embedded
	// The block may have the options of the embedded compressor, too.
	known := e.options()
	maps.Copy(known, option.Options{
		"compressor": func(d *caddyfile.Dispenser) error { return o.readCompressor(d) },
		"rate":       option.Checked(option.Above(option.Fraction, &o.Rate), o.check),
		"min_chars":  option.Checked(option.Count(&o.MinChars), o.check),
		"kinds": option.Checked(option.AtLeastOne(func(d *caddyfile.Dispenser) error {
			for _, k := range d.RemainingArgs() {
				o.Kinds = append(o.Kinds, pipeline.Prose(k))
			}
			return nil
		}), o.check),
		"share": option.Checked(option.Above(option.Fraction, &o.Share), o.check),
		"queue": option.Checked(option.Size(&o.Queue), o.check),
	})
	if err := option.Block(d, "compress", known); err != nil {
		return err
	}
	switch {
	case e != (Embedded{}) && o.CompressorRaw != nil:
		return d.Err("compress: compressor excludes model, int8 and threads, which configure the embedded one")
	case e != (Embedded{}):
		o.CompressorRaw = caddyconfig.JSONModuleObject(&e, "module", "embedded", nil)
	}
	if o.CompressorRaw == nil {
		return d.Err("compress: no compressor is given")
	}
	return nil
}

func (o *Options) readCompressor(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	var err error
	o.CompressorRaw, err = option.Module(d, "llm_cache.compressors", "module")
	return err
}

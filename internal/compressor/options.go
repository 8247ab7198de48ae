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

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// Options have words left out of old prose, by LLMLingua-2. Which words is found out
// behind answers, one text at a time, in a share of a core: no request waits for it. A
// result is used where the upstream reads a text anew in any case, because its cache has
// expired or something before it was folded, and stays for as long as the conversation
// lasts. The last four turns, errors, calls, and what persons have written keep all their
// words; of other texts, code, lists of results, diffs and JSON do, and names, numbers
// and negations. Where the expand tool is declared it returns the original. Results are
// kept with the folded texts: in memory, and on disk where the app has `originals`.
type Options struct {
	// CompressorRaw is what finds out which words to leave out.
	CompressorRaw json.RawMessage `json:"compressor,omitempty" caddy:"namespace=llm_cache.compressors inline_key=module"`
	// Rate is the part of the tokens of prose to keep, over 0 and below 1. Names,
	// numbers and negations come on top. Default: 0.5.
	Rate float64 `json:"rate,omitempty"`
	// MinChars is the number of characters of prose below which a text is left alone.
	// Default: 200.
	MinChars int `json:"min_chars,omitempty"`
	// Kinds are the kinds of texts to look for prose in: results, of tools other than
	// the following; files that were read; output of commands and searches; answers of
	// the model itself, where the expand tool is declared. Default: results.
	Kinds []pipeline.Prose `json:"kinds,omitempty"`
	// Share is the part of a core that the worker may take, over 0 and up to 1. It takes
	// less while requests come. Default: 0.25.
	Share float64 `json:"share,omitempty"`
	// Queue is the size in bytes that all texts that wait may have; one credential may
	// fill a quarter. What finds no room is left as it is. At least 65536. Default:
	// 4194304 (4 MiB).
	Queue int64 `json:"queue,omitempty"`

	key        string
	compressor Compressor
	worker     *Worker
}

// The defaults of [Options].
const (
	defaultRate     = 0.5
	defaultMinChars = 200
	defaultShare    = 0.25
	defaultQueue    = 4 << 20
	smallestQueue   = 64 << 10
)

// Validate reports the first option that makes no sense. Nil is valid.
func (o *Options) Validate() error {
	switch {
	case o == nil:
		return nil
	case o.CompressorRaw == nil && o.compressor == nil && o.worker == nil:
		return errors.New("no compressor is given")
	}
	return o.check()
}

// check looks at each option alone.
func (o *Options) check() error {
	switch {
	case o.Rate != 0 && !(o.Rate > 0 && o.Rate < 1):
		return fmt.Errorf("rate: %v lies not over 0 and below 1", o.Rate)
	case o.MinChars < 0 || o.MinChars > 1<<20:
		return fmt.Errorf("min_chars: %d is not between 1 and %d", o.MinChars, 1<<20)
	case o.Share != 0 && !(o.Share > 0 && o.Share <= 1):
		return fmt.Errorf("share: %v lies not over 0 and up to 1", o.Share)
	case o.Queue != 0 && o.Queue < smallestQueue:
		return fmt.Errorf("queue: %d is below %d bytes", o.Queue, smallestQueue)
	}
	return pipeline.CheckProse(o.Kinds)
}

// Provision loads the compressor and finds the worker at work, or makes one. Nil needs
// neither.
func (o *Options) Provision(ctx caddy.Context) error {
	if o == nil {
		return nil
	}
	if err := o.Validate(); err != nil {
		return err
	}
	if err := o.Load(ctx); err != nil {
		return err
	}
	v, _, err := workers.LoadOrNew(o.key, func() (caddy.Destructor, error) { return newWorker(), nil })
	if err != nil {
		return err
	}
	o.worker = v.(*Worker)
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

// Compressor is what was loaded.
func (o *Options) Compressor() Compressor { return o.compressor }

// Use has texts shortened by a worker of the caller's, in the place of Provision. Its
// compressor is known by name.
func (o *Options) Use(w *Worker, name string) { o.worker, o.key = w, name }

// Cleanup lets go of the worker.
func (o *Options) Cleanup() error {
	if o == nil || o.worker == nil {
		return nil
	}
	w := o.worker
	w.mu.Lock()
	if i := slices.Index(w.serving, o.compressor); i >= 0 {
		w.serving = slices.Delete(w.serving, i, i+1)
	}
	w.mu.Unlock()
	o.worker = nil
	_, err := workers.Delete(o.key)
	return err
}

// Worker is the one at work, nil if there is none.
func (o *Options) Worker() *Worker {
	if o == nil {
		return nil
	}
	return o.worker
}

// Name is how results are known: by what made them and at which rate.
func (o *Options) Name() string { return fmt.Sprintf("words %v %s", o.rate(), o.key) }

// kinds are the kinds of texts to look at.
func (o *Options) kinds() []pipeline.Prose {
	if len(o.Kinds) == 0 {
		return []pipeline.Prose{pipeline.ProseResults}
	}
	return o.Kinds
}

func (o *Options) rate() float64 { return cmp.Or(o.Rate, defaultRate) }

// Stage is what the pipeline is told, but for what is known.
func (o *Options) Stage() *pipeline.Compress {
	return &pipeline.Compress{MinBytes: cmp.Or(o.MinChars, defaultMinChars), Kinds: o.kinds()}
}

// Fill puts the options into a job.
func (o *Options) Fill(j *Job) { j.Rate, j.Least = o.rate(), cmp.Or(o.MinChars, defaultMinChars) }

// UnmarshalCaddyfile sets the stage up from Caddyfile tokens. Syntax:
//
//	compress lingua2 {
//		model     <folder>
//		int8
//		threads   <cores>
//		by        <compressor> ...
//		rate      <part>
//		min_chars <characters>
//		kinds     results|files|output|answers...
//		share     <part of a core>
//		queue     <size>
//	}
//
// A model is run by the compressor embedded; by names another one, with its options.
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
	known := e.options()
	maps.Copy(known, option.Options{
		"by":        func(d *caddyfile.Dispenser) error { return o.by(d) },
		"rate":      option.Checked(option.Above(option.Fraction, &o.Rate), o.check),
		"min_chars": option.Checked(option.Count(&o.MinChars), o.check),
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
		return d.Err("compress: by is another compressor than that of model, int8 and threads")
	case e != (Embedded{}):
		o.CompressorRaw = caddyconfig.JSONModuleObject(&e, "module", "embedded", nil)
	}
	if err := o.Validate(); err != nil {
		return d.WrapErr(fmt.Errorf("compress: %w", err))
	}
	return nil
}

// by reads a compressor of another kind.
func (o *Options) by(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	var err error
	o.CompressorRaw, err = option.Module(d, "llm_cache.compressors", "module")
	return err
}

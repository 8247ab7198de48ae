// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
)

const (
	// forever is the retention without deletion.
	forever          = -1
	defaultRetention = 90 * 24 * time.Hour
	// minInterval keeps a store from being written for every record.
	minInterval, maxInterval = 10 * time.Millisecond, time.Minute
	maxBatch                 = 10_000
)

// AuditStore is the interface of modules in the namespace `llm_cache.audit`: a store for one record
// of every turn.
type AuditStore interface {
	// Identity identifies the store that this configuration opens. Configurations of one module
	// with equal identities share one open store, within a configuration and across reloads.
	Identity() string
	// Open opens the store. It is called at the start of the configuration, and again after a
	// failure. It must not wait for a server: the store of a server is an audit.Prober.
	Open() (audit.Store, error)
	// Settings returns the options that all stores share.
	Settings() *AuditOptions
}

// AuditOptions are the options that all audit stores share.
type AuditOptions struct {
	// Content keeps prompts and responses as well, as the client sent and received them. Default: false.
	Content bool `json:"content,omitempty"`
	// Batch is the number of records that are written at once. At most 10000. Default: 500.
	Batch int `json:"batch,omitempty"`
	// Interval is the time that a record waits for others of its batch. A killed process loses
	// the records of this time, and those that wait for a failing store. From 10ms to 1m.
	// Default: 1s.
	Interval caddy.Duration `json:"interval,omitempty"`
	// OnError is the effect of a failing store on requests. With `memory`, records wait in memory
	// and the store is tried again. With `refuse`, Caddy does not start, a damaged file is left
	// alone, and requests get a 503 until the store works. Requests with budgets get it, too, while
	// the server fails at which several Caddys keep their budgets. Default: memory.
	OnError string `json:"on_error,omitempty"`
}

const keepOnError, refuseOnError = "memory", "refuse"

// Settings implements AuditStore.
func (o *AuditOptions) Settings() *AuditOptions { return o }

// Validate reports the first option out of its range.
func (o *AuditOptions) Validate() error {
	if o.Batch < 0 || o.Batch > maxBatch {
		return fmt.Errorf("batch must be between 1 and %d, got %d", maxBatch, o.Batch)
	}
	if o.OnError != "" && o.OnError != keepOnError && o.OnError != refuseOnError {
		return fmt.Errorf("on_error must be %s or %s, got %q", keepOnError, refuseOnError, o.OnError)
	}
	if i := time.Duration(o.Interval); i != 0 && (i < minInterval || i > maxInterval) {
		return fmt.Errorf("interval must be between %s and %s, got %s", minInterval, maxInterval, i)
	}
	return nil
}

// Retention is the option for the lifetime of records.
type Retention struct {
	// Retention is how long records, and content with them, are kept: at least 1h, or -1 for ever.
	// Default: 90d.
	Retention caddy.Duration `json:"retention,omitempty"`
}

// Validate reports a retention out of its range.
func (r *Retention) Validate() error {
	if r.Retention != 0 && r.Retention != forever && time.Duration(r.Retention) < time.Hour {
		return fmt.Errorf("retention: %s is below %s", time.Duration(r.Retention), time.Hour)
	}
	return nil
}

func (r *Retention) keeps() time.Duration {
	switch r.Retention {
	case 0:
		return defaultRetention
	case forever:
		return 0
	}
	return time.Duration(r.Retention)
}

// unmarshalAudit parses the block of a store from its name on, with its own and the shared options. If argument is
// not nil, it takes the one argument that may follow the name.
func (o *AuditOptions) unmarshalAudit(d *caddyfile.Dispenser, argument *string, storeOptions option.Options) error {
	d.Next() // the name of the store
	name := d.Val()
	if argument != nil && d.NextArg() {
		*argument = d.Val()
	}
	storeOptions["content"] = option.Parsed(func(s string) error {
		if o.Content = s == "on"; !o.Content && s != "off" {
			return strconv.ErrSyntax
		}
		return nil
	}, "on or off")
	storeOptions["batch"] = option.Checked(option.Count(&o.Batch), o.Validate)
	storeOptions["interval"] = option.Checked(option.Duration(&o.Interval), o.Validate)
	storeOptions["on_error"] = option.Checked(option.Word(&o.OnError), o.Validate)
	return option.Alone(d, "audit "+name, storeOptions)
}

func (r *Retention) retention() option.Option {
	return option.Checked(option.Parsed(func(s string) error {
		if s == "forever" {
			r.Retention = forever
			return nil
		}
		t, err := caddy.ParseDuration(s)
		if err == nil && t <= 0 {
			err = strconv.ErrRange
		}
		r.Retention = caddy.Duration(t)
		return err
	}, "a duration above zero or forever"), r.Validate)
}

// once parses a text, and refuses a second one.
func once(to *string) option.Option {
	return option.Once(func() bool { return *to != "" }, option.Word(to))
}

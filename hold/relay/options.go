// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package relay

import (
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/hold"
	"github.com/caddy-llm-cache/caddy-llm-cache/hold/edge"
	"github.com/caddy-llm-cache/caddy-llm-cache/option"
)

const (
	// DefaultMemory is what bodies that an upstream holds may take, in bytes.
	DefaultMemory = 256 << 20
	// DefaultTTL is how long what nobody uses is kept.
	DefaultTTL = 3 * time.Hour

	leastMemory = 1 << 20
	longestTTL  = 7 * 24 * time.Hour
)

// Options says what the upstream holds of conversations, so that requests need carry no
// more than what is new.
type Options struct {
	// Origin says that the upstream is a Caddy with llm_cache_origin. Requests go there
	// as the difference to what it has been sent before. One that turns out to be
	// something else gets them whole. Default: false.
	Origin bool `json:"origin,omitempty"`
	// Memory is how many bytes of what the upstream holds are kept here to compare
	// with; whoever has most of it gives way first. At least 1 MiB. Default: 268435456
	// (256 MiB).
	Memory int64 `json:"memory,omitempty"`
	// TTL is for how long what is not used is kept, at most 7 days. Default: 3h.
	TTL caddy.Duration `json:"ttl,omitempty"`
}

// Validate reports the first option that makes no sense. Nil is valid.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	return ValidateLimits(o.Memory, o.TTL)
}

// ValidateLimits reports bounds that make no sense.
func ValidateLimits(memory int64, ttl caddy.Duration) error {
	if memory != 0 && memory < leastMemory {
		return fmt.Errorf("memory: %d is below %d bytes", memory, leastMemory)
	}
	if t := time.Duration(ttl); t != 0 && (t < time.Second || t > longestTTL) {
		return fmt.Errorf("ttl: %s is not between 1s and 7d", t)
	}
	return nil
}

// Limits returns the bounds, with their defaults.
func Limits(memory int64, ttl caddy.Duration) hold.Limits {
	l := hold.Limits{Memory: memory, Life: time.Duration(ttl)}
	if l.Memory == 0 {
		l.Memory = DefaultMemory
	}
	if l.Life == 0 {
		l.Life = DefaultTTL
	}
	return l
}

// UnmarshalCaddyfile sets the options up from Caddyfile tokens. Syntax:
//
//	hold origin {
//		memory <size>
//		ttl    <duration>
//	}
func (o *Options) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	var by string
	if !d.AllArgs(&by) {
		return d.ArgErr()
	}
	if by != "origin" {
		return d.Errf("hold: %q is not origin", by)
	}
	o.Origin = true
	return option.Block(d, "hold", option.Options{
		"memory": option.Checked(option.Size(&o.Memory), o.Validate),
		"ttl":    option.Checked(option.Duration(&o.TTL), o.Validate),
	})
}

// Engines are those of a process. They outlive configurations.
type Engines struct{ byLimits sync.Map }

// Open returns the engine for options, nil where the upstream holds nothing.
func (e *Engines) Open(o *Options, now func() time.Time) *hold.Engine {
	if o == nil || !o.Origin {
		return nil
	}
	l := Limits(o.Memory, o.TTL)
	if v, ok := e.byLimits.Load(l); ok {
		return v.(*hold.Engine)
	}
	v, _ := e.byLimits.LoadOrStore(l, hold.New(edge.New(), l, now))
	return v.(*hold.Engine)
}

// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/delta"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/socket"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/threads"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
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
	// Threads has requests of the Messages API whose history the provider keeps go there
	// without it, for clients that send all of it: on, off, or auto, which does so from 1
	// MiB on. Prices do not change; what changes is the upload, and the time to the first
	// token. Clients that keep their conversations in threads themselves always may.
	// Default: off.
	Threads string `json:"threads,omitempty"`
	// WebSocket has requests of the Responses API go to the upstream over WebSockets, with
	// what is new and the answer that it goes on from, for clients that POST all of it and
	// have the provider keep nothing (store false), as coding agents do. Prices do not
	// change; what changes is the upload, and the time to the first token. What cannot go
	// that way goes as POST. Default: false.
	WebSocket bool `json:"websocket,omitempty"`
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
	switch o.Threads {
	case "", Off, On, Auto:
	default:
		return fmt.Errorf("threads: %q is not on, off or auto", o.Threads)
	}
	if o.Origin && o.WebSocket {
		return errors.New("websocket: an origin keeps bodies, not connections")
	}
	return ValidateLimits(o.Memory, o.TTL)
}

// The values of [Options.Threads].
const (
	Off  = "off"
	On   = "on"
	Auto = "auto"
)

// autoThreads is the size in bytes of the requests for which threads are worth having.
const autoThreads = 1 << 20

// Threaded reports whether a request of some bytes is to be kept in a thread, though its
// client has not asked for that.
func (o *Options) Threaded(size int) bool {
	return o != nil && (o.Threads == On || o.Threads == Auto && size >= autoThreads)
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

// Limits returns the bounds of options, which may be nil, with their defaults.
func (o *Options) Limits() retain.Limits {
	if o == nil {
		o = new(Options)
	}
	return Limits(o.Memory, o.TTL)
}

// Limits returns the bounds, with their defaults.
func Limits(memory int64, ttl caddy.Duration) retain.Limits {
	l := retain.Limits{Memory: memory, Life: time.Duration(ttl)}
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
//	hold origin|threads on|off|auto|websocket on|off {
//		memory <size>
//		ttl    <duration>
//	}
func (o *Options) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	switch args := d.RemainingArgs(); {
	case len(args) == 1 && args[0] == "origin":
		o.Origin = true
	case len(args) == 2 && args[0] == "threads":
		if o.Threads = args[1]; o.Validate() != nil {
			return d.Errf("hold: threads %q is not on, off or auto", args[1])
		}
	case len(args) == 2 && args[0] == "websocket":
		if args[1] != On && args[1] != Off {
			return d.Errf("hold: websocket %q is not on or off", args[1])
		}
		o.WebSocket = args[1] == On
	case len(args) == 0 || len(args) > 2 || args[0] == "origin" || args[0] == "threads" || args[0] == "websocket":
		return d.ArgErr()
	default:
		return d.Errf("hold: %q is not origin, threads or websocket", args[0])
	}
	return option.Block(d, "hold", option.Options{
		"memory": option.Checked(option.Size(&o.Memory), o.Validate),
		"ttl":    option.Checked(option.Duration(&o.TTL), o.Validate),
	})
}

// Engines are those of a process. They outlive configurations.
type Engines struct{ byLimits sync.Map }

// Open returns the engine towards an origin for options, nil where there is none.
func (e *Engines) Open(o *Options, now func() time.Time) *retain.Engine {
	if o == nil || !o.Origin {
		return nil
	}
	l := o.Limits()
	return opened(e, delta.EdgeName, l, func() *retain.Engine { return retain.New(delta.NewEdge(), l, now) })
}

// threadLife is for how long the Messages API keeps a thread for certain that is not
// used.
const threadLife = 5 * time.Minute

// Threads returns the engine for conversations that providers keep in a format, and what
// clients have said that leave it to them; nil if none do.
func (e *Engines) Threads(o *Options, f wire.Format, now func() time.Time) (*retain.Engine, *threads.Book) {
	if !threads.Kept(f) {
		return nil, nil
	}
	l := o.Limits()
	book := opened(e, "book", l, func() *threads.Book { return threads.NewBook(l, now) })
	if f.Traits().Threads {
		l.Life = min(l.Life, threadLife)
	}
	return opened(e, string(f), l, func() *retain.Engine { return retain.New(threads.NewDriver(f), l, now) }), book
}

// Sockets returns the engine for conversations that providers keep with a connection.
func (e *Engines) Sockets(o *Options, now func() time.Time) *retain.Engine {
	l := o.Limits()
	return opened(e, "websocket", l, func() *retain.Engine { return retain.New(socket.NewDriver(), l, now) })
}

// Of returns the engine of a driver for options.
func (e *Engines) Of(d retain.Driver, o *Options, now func() time.Time) *retain.Engine {
	l := o.Limits()
	return opened(e, d.Name(), l, func() *retain.Engine { return retain.New(d, l, now) })
}

// Forget forgets an answer of a tenant's wherever it is held, under whichever limits.
func (e *Engines) Forget(s retain.Side, id string) {
	e.byLimits.Range(func(_, v any) bool {
		v.(interface {
			Forget(s retain.Side, id string)
		}).Forget(s, id) //nolint:forcetypeassert // a book or an engine
		return true
	})
}

type opening struct {
	name string
	retain.Limits
}

func opened[T any](e *Engines, name string, l retain.Limits, open func() T) T {
	v, ok := e.byLimits.Load(opening{name, l})
	if !ok {
		v, _ = e.byLimits.LoadOrStore(opening{name, l}, open())
	}
	return v.(T)
}

// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/sessionstore"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/disk"
)

// Defaults of the disk store.
const (
	defaultDiskSize = 1 << 30
	smallestDisk    = 1 << 20
	defaultDiskTTL  = 7 * 24 * time.Hour
)

// DiskStore keeps sessions in the memory of the process and, sealed, in a file, so that
// they survive a restart, an upgrade and the sudden end of the process: what was folded
// stays folded, in the same bytes. Neither a word of what clients send nor a credential
// is in the file. One process may use it at a time. Where the file cannot be used,
// sessions are kept in memory only.
type DiskStore struct {
	// Path is the file. It may hold placeholders. Default: llm_cache/sessions.db in
	// Caddy's data directory.
	Path string `json:"path,omitempty"`
	// MaxSize is how many bytes the file may take, about. Beyond it the tenant that
	// holds most loses the sessions that it has not used for longest. At least 1 MiB.
	// Default: 1073741824 (1 GiB), some hundred thousand conversations.
	MaxSize int64 `json:"max_size,omitempty"`
	// TTL is how long a session is kept in the file after its last request. At
	// least 1m. Default: 168h.
	TTL caddy.Duration `json:"ttl,omitempty"`
	// Key seals what is in the file, and tells tenants apart: 32 bytes in hexadecimal
	// or base64. It may be a placeholder, such as {env.LLM_CACHE_KEY}. A process
	// that is started with another key begins all sessions anew; one that runs when it
	// changes goes on with those that it has. Default: that in KeyFile.
	Key string `json:"key,omitempty"`
	// KeyFile holds the key, in the same form. It may be named by placeholders. If there
	// is no such file it is made, with a new key, for its owner only. Default:
	// llm_cache/key in Caddy's data directory.
	KeyFile string `json:"key_file,omitempty"`

	key    secret.Key            // what Provision has found
	next   *sessioncache.Durable // the file, while it waits to take the place of another
	logger *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (DiskStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.stores.disk", New: func() caddy.Module { return new(DiskStore) }}
}

// Provision fills in defaults, refuses limits out of range, and finds the key. It does
// not touch the file of sessions: a configuration may only be looked at.
func (s *DiskStore) Provision(ctx caddy.Context) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if s.Path == "" {
		s.Path = filepath.Join(DataDir(), "sessions.db")
	}
	path, err := filepath.Abs(Expand(s.Path))
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	s.Path = path
	if s.MaxSize == 0 {
		s.MaxSize = defaultDiskSize
	}
	if s.TTL == 0 {
		s.TTL = caddy.Duration(defaultDiskTTL)
	}
	s.logger = ctx.Logger()
	s.key, err = FindKey(s.Key, s.KeyFile, "sessions")
	return err
}

// Validate reports the first option out of its range.
func (s *DiskStore) Validate() error {
	switch {
	case s.Key != "" && s.KeyFile != "":
		return errors.New("key and key_file: only one of them can be the key")
	case s.MaxSize != 0 && s.MaxSize < smallestDisk:
		return fmt.Errorf("max_size: %d is below %d bytes", s.MaxSize, smallestDisk)
	case s.TTL != 0 && time.Duration(s.TTL) < ShortestIdleTTL:
		return fmt.Errorf("ttl: %s is below %s", time.Duration(s.TTL), ShortestIdleTTL)
	}
	return nil
}

// Identity implements Store.
func (s *DiskStore) Identity() string { return s.Path }

// Secret is what tenants are told apart by where the file does not say otherwise.
func (s *DiskStore) Secret() secret.Key {
	return s.key.Derive("tenants")
}

// Open implements Store. The file is opened when the configuration starts, or by its first
// request.
func (s *DiskStore) Open() (sessioncache.Store, error) {
	store, err := sessionstore.Open(s.memory())
	if err != nil {
		return nil, err // not a nil store in an interface
	}
	d, err := s.durable(store)
	if err != nil {
		return nil, err
	}
	return store, store.Move(sessionstore.Place{Name: s.Path, Durable: d})
}

// durable makes what keeps the sessions of a store in the file.
func (s *DiskStore) durable(store *sessionstore.Store) (*sessioncache.Durable, error) {
	return newDurable(store, s.logger, s.Path, func() (sessioncache.Backend, error) {
		d, err := disk.Open(disk.Options{Path: s.Path, MaxBytes: s.MaxSize, TTL: time.Duration(s.TTL), Log: func(message string, err error) {
			storeFailed(store, "damaged")
			s.logger.Error(message, zap.Error(err))
		}})
		if err != nil {
			return nil, err // not a nil file in an interface
		}
		return d, nil
	}, sessioncache.DurableOptions{Over: store.Memory, Key: s.key})
}

// Begin opens the file, unless a configuration before has it open. It fails where to do
// without would be a mistake: the file is in use, or of a newer version. Otherwise
// sessions are kept in memory.
func (s *DiskStore) Begin(store sessioncache.Store) error {
	l, ok := store.(*sessionstore.Store)
	if !ok {
		return fmt.Errorf("%T is no disk store", store)
	}
	at := l.Place()
	d, err := at.Durable, errElsewhere
	if sameFile(at.Name, s.Path) {
		err = d.Begin()
	}
	if err != nil && !refusing(err) { // it may work now
		if d, err = s.durable(l); err != nil {
			return err
		}
		s.next, err = d, d.Begin()
	}
	if refusing(err) {
		return err
	}
	if err != nil {
		storeFailed(store, "open")
		s.logger.Error("sessions are kept in memory only, until the configuration is loaded anew", zap.Error(err))
	}
	return nil
}

// errElsewhere says that sessions are kept in another file, or in none.
var errElsewhere = errors.New("sessions are kept elsewhere")

// refusing reports whether to do without the file would be a mistake.
func refusing(err error) bool { return errors.Is(err, disk.ErrInUse) || errors.Is(err, disk.ErrNewer) }

// sameFile reports whether two paths name one file.
func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// Adjust implements Store. What was opened by Begin takes the place of what was before.
func (s *DiskStore) Adjust(store sessioncache.Store) error {
	l, ok := store.(*sessionstore.Store)
	if !ok {
		return fmt.Errorf("%T is no disk store", store)
	}
	var err error
	if s.next != nil {
		err = l.Move(sessionstore.Place{Name: s.Path, Durable: s.next})
		s.next = nil
	}
	d := l.Place().Durable
	if d.Begin() == nil {
		worksAgain(store)
	}
	if f, ok := d.Backend().(*disk.Disk); ok {
		f.SetLimits(s.MaxSize, time.Duration(s.TTL))
	}
	return errors.Join(err, d.SetKey(s.key), l.SetLimits(s.memory()))
}

// Cleanup closes the file that a configuration has opened which did not come into force.
func (s *DiskStore) Cleanup() error {
	if s.next == nil {
		return nil
	}
	return s.next.Close()
}

func (s *DiskStore) memory() sessioncache.MemoryOptions {
	return sessioncache.MemoryOptions{IdleTTL: min(time.Duration(s.TTL), sessioncache.DefaultIdleTTL)}
}

// UnmarshalCaddyfile sets the store up from Caddyfile tokens. Syntax:
//
//	disk {
//		path     <file>
//		max_size <size>
//		ttl      <duration>
//		key      <key or placeholder>
//		key_file <file>
//	}
func (s *DiskStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the store
	if d.NextArg() {
		return d.ArgErr()
	}
	return option.Block(d, "store disk", option.Options{
		"path":     option.Word(&s.Path),
		"max_size": option.Checked(option.Size(&s.MaxSize), s.Validate),
		"ttl":      option.Checked(option.Duration(&s.TTL), s.Validate),
		"key":      option.Checked(option.Word(&s.Key), s.Validate),
		"key_file": option.Checked(option.Word(&s.KeyFile), s.Validate),
	})
}

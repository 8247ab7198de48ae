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

// DiskStore keeps sessions in the memory of the process and in an encrypted file. So they survive a
// restart, an upgrade and a crash, and folds stay the same bytes. The file holds neither texts of
// clients nor credentials. One process may use it at a time. While the file is unusable, sessions
// are kept in memory only.
type DiskStore struct {
	// Path is the file, and may hold placeholders. Default: llm_cache/sessions.db in Caddy's data directory.
	Path string `json:"path,omitempty"`
	// MaxSize is the approximate maximum of the file, in bytes. Beyond it the tenant with the most
	// data loses its least recently used sessions. At least 1 MiB. Default: 1073741824 (1 GiB),
	// some hundred thousand conversations.
	MaxSize int64 `json:"max_size,omitempty"`
	// TTL is the lifetime of a session in the file after its last request. At least 1m. Default: 168h.
	TTL caddy.Duration `json:"ttl,omitempty"`
	// Key encrypts the file and tells tenants apart: 32 bytes in hexadecimal or base64. It may be a
	// placeholder, such as {env.LLM_CACHE_KEY}. After a restart with another key all sessions begin
	// anew. A running process keeps its sessions when the key changes. Default: the key in KeyFile.
	Key string `json:"key,omitempty"`
	// KeyFile is the file of the key, in the same form, and may hold placeholders. A missing file is created with a
	// new key, readable by its owner only. Default: llm_cache/key in Caddy's data directory.
	KeyFile string `json:"key_file,omitempty"`

	key    secret.Key              // set by Provision
	next   *sessioncache.Persister // of the new file, until Adjust moves the store to it
	logger *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (DiskStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.stores.disk", New: func() caddy.Module { return new(DiskStore) }}
}

// Provision fills in defaults, checks limits, and finds the key.
func (s *DiskStore) Provision(ctx caddy.Context) error {
	// The file of sessions stays closed: the configuration may only be validated.
	if err := s.Validate(); err != nil {
		return err
	}
	if s.Path == "" {
		s.Path = filepath.Join(option.DataDir(), "sessions.db")
	}
	path, err := filepath.Abs(option.Expand(s.Path))
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
	s.key, err = option.Key(s.Key, s.KeyFile, "sessions")
	return err
}

// Validate reports the first option out of its range.
func (s *DiskStore) Validate() error {
	switch {
	case s.Key != "" && s.KeyFile != "":
		return option.ErrTwoKeys
	case s.MaxSize != 0 && s.MaxSize < smallestDisk:
		return fmt.Errorf("max_size: %d is below %d bytes", s.MaxSize, smallestDisk)
	case s.TTL != 0 && time.Duration(s.TTL) < MinIdleTTL:
		return fmt.Errorf("ttl: %s is below %s", time.Duration(s.TTL), MinIdleTTL)
	}
	return nil
}

// Identity implements Store.
func (s *DiskStore) Identity() string { return s.Path }

// Secret returns the key for tenants, if the file has none yet.
func (s *DiskStore) Secret() secret.Key {
	return s.key.Derive("tenants")
}

// Open implements Store.
func (s *DiskStore) Open() (*sessioncache.Store, error) {
	store, err := sessioncache.New(s.memory())
	if err != nil {
		return nil, err
	}
	// The file is opened at the start of the configuration, or by its first request.
	p, err := s.persister(store)
	if err != nil {
		return nil, err
	}
	return store, store.Move(p)
}

func (s *DiskStore) persister(store *sessioncache.Store) (*sessioncache.Persister, error) {
	return Persister(store, s.logger, sessioncache.BackendOptions{
		Name: s.Path, Key: s.key,
		Open: func() (sessioncache.Backend, error) {
			d, err := disk.Open(disk.Options{
				Path: s.Path, MaxBytes: s.MaxSize, TTL: time.Duration(s.TTL),
				Log: func(message string, err error) {
					storeFailed(store, "damaged")
					s.logger.Error(message, zap.Error(err))
				},
			})
			if err != nil {
				return nil, err // a nil *Disk in the interface would not equal nil
			}
			return d, nil
		},
	})
}

// Begin opens the file. It returns an error if the file is in use or of a newer version.
func (s *DiskStore) Begin(store *sessioncache.Store) error {
	p, err := store.Persister(), errElsewhere
	// An earlier configuration may have opened the file.
	if sameFile(p.Name(), s.Path) {
		err = p.Begin()
	}
	if err != nil && !refusing(err) { // the reason may be gone by now
		if p, err = s.persister(store); err != nil {
			return err
		}
		s.next, err = p, p.Begin()
	}
	// Memory alone would be a mistake: another process uses the file, or a later version made it.
	if refusing(err) {
		return err
	}
	// After any other failure, requests are served from memory.
	if err != nil {
		storeFailed(store, "open")
		s.logger.Error("sessions are kept in memory only, until the configuration is loaded anew", zap.Error(err))
	}
	return nil
}

var errElsewhere = errors.New("sessions are kept elsewhere")

// refusing reports errors that must stop the configuration.
func refusing(err error) bool { return errors.Is(err, disk.ErrInUse) || errors.Is(err, disk.ErrNewer) }

func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	// A link may give the file a second name.
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// Adjust implements Store. It moves the store to the file that Begin has opened.
func (s *DiskStore) Adjust(store *sessioncache.Store) error {
	var err error
	if s.next != nil {
		err = store.Move(s.next)
		s.next = nil
	}
	p := store.Persister()
	if p.Begin() == nil {
		worksAgain(store)
	}
	if f, ok := p.Backend().(*disk.Disk); ok {
		f.SetLimits(s.MaxSize, time.Duration(s.TTL))
	}
	return errors.Join(err, p.SetKey(s.key), store.SetLimits(s.memory()))
}

// Cleanup closes the file of a configuration that did not come into force.
func (s *DiskStore) Cleanup() error {
	if s.next == nil {
		return nil
	}
	return s.next.Close()
}

func (s *DiskStore) memory() sessioncache.Options {
	return sessioncache.Options{IdleTTL: min(time.Duration(s.TTL), sessioncache.DefaultIdleTTL)}
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

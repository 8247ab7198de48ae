// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/originals"
)

// Originals keep the texts that were folded on disk, besides in memory, so that
// what a client has dropped from its history comes back after a restart, too. The
// files are encrypted; nothing in them or in their names can be read without the
// key. Sessions keep their names over a restart then. A process that is started with
// another folder or key does not find what was kept before; one that runs when they
// change has what is in memory lie there, too. One process may use a folder at a time.
type Originals struct {
	// Folder is where the files lie. It may hold placeholders. Default:
	// llm_cache/originals in Caddy's data directory.
	Folder string `json:"folder,omitempty"`
	// Key encrypts them: 32 bytes in hexadecimal or base64. It may be a
	// placeholder, such as {env.LLM_CACHE_KEY}. Default: that in KeyFile.
	Key string `json:"key,omitempty"`
	// KeyFile holds the key, in the same form. It may be named by placeholders. If there
	// is no such file it is made, with a new key, for its owner only. Default:
	// llm_cache/key in Caddy's data directory, which everything has a key of its own
	// from.
	KeyFile string `json:"key_file,omitempty"`
	// MaxSize is how many bytes all files may take. Those of the credential that holds most
	// go first, if that is more than a quarter, and of these the ones not used for longest.
	// At least 1 MiB. Default: 268435456 (256 MiB).
	MaxSize int64 `json:"max_size,omitempty"`
	// TTL is how long a text is kept after it was last folded or asked for. At
	// least 1m. Default: 24h.
	TTL caddy.Duration `json:"ttl,omitempty"`

	key secret.Key // what prepare has found
}

const (
	defaultOriginalsSize = 256 << 20
	smallestOriginals    = 1 << 20
	defaultOriginalsTTL  = 24 * time.Hour
)

// Validate reports the first option out of its range. Nil is valid.
func (o *Originals) Validate() error {
	switch {
	case o == nil:
		return nil
	case o.Key != "" && o.KeyFile != "":
		return errors.New("key and key_file: only one of them can be the key")
	case o.MaxSize != 0 && o.MaxSize < smallestOriginals:
		return fmt.Errorf("max_size: %d is below %d bytes", o.MaxSize, smallestOriginals)
	case o.TTL != 0 && time.Duration(o.TTL) < time.Minute:
		return fmt.Errorf("ttl: %s is below %s", time.Duration(o.TTL), time.Minute)
	}
	return nil
}

// prepare fills in defaults and finds the key.
func (o *Originals) prepare() error {
	if o == nil {
		return nil
	}
	if err := o.Validate(); err != nil {
		return err
	}
	data := filepath.Join(caddy.AppDataDir(), "llm_cache")
	if o.Folder == "" {
		o.Folder = filepath.Join(data, "originals")
	}
	o.Folder = Expand(o.Folder)
	if o.MaxSize == 0 {
		o.MaxSize = defaultOriginalsSize
	}
	if o.TTL == 0 {
		o.TTL = caddy.Duration(defaultOriginalsTTL)
	}
	var err error
	o.key, err = FindKey(o.Key, o.KeyFile, "originals")
	return err
}

// folder is where the files lie, "" for nowhere.
func (o *Originals) folder() string {
	if o == nil {
		return ""
	}
	return o.Folder
}

// open opens the files.
func (o *Originals) open(logger *zap.Logger) (*originals.Files, error) {
	if o == nil {
		return nil, nil
	}
	return originals.OpenFiles(originals.FilesOptions{
		Folder: o.Folder, Key: o.key, MaxBytes: o.MaxSize, TTL: time.Duration(o.TTL),
		Log: func(file string, err error) {
			if errors.Is(err, originals.ErrPanic) {
				httpx.BackgroundPanics.Inc()
			}
			logger.Warn("a file of folded texts is ignored", zap.String("file", file), zap.Error(err))
		},
	})
}

// openOriginals opens the files, unless a configuration before has them open.
func (a *App) openOriginals() (err error) {
	running.Lock()
	defer running.Unlock()
	if a.Originals.folder() != a.lease.State.folder {
		if a.files, err = a.Originals.open(a.logger); err != nil {
			return fmt.Errorf("originals: %w", err)
		}
	}
	return nil
}

// adjustOriginals has texts kept as this configuration says. Those in memory come to lie
// in its files.
func (a *App) adjustOriginals() error {
	s, o := a.lease.State, a.Originals
	var err error
	if o.folder() != s.folder {
		err = s.Blocks.Move(a.files)
		s.folder, a.files = o.folder(), nil
	}
	if o == nil {
		return err
	}
	s.Blocks.SetLimits(o.MaxSize, time.Duration(o.TTL))
	return errors.Join(err, s.Blocks.SetKey(o.key))
}

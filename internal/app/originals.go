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
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/originals"
)

// Originals keeps folded texts on disk besides in memory. So texts that a client has dropped from
// its history can be restored after a restart, and sessions keep their names. The files are
// encrypted: neither they nor their names can be read without the key. A process that starts with
// another folder or key does not find the earlier texts. When a running process gets another folder
// or key, it writes the texts in memory there. One process may use a folder at a time.
type Originals struct {
	// Folder is the folder of the files, and may hold placeholders. Default: llm_cache/originals in
	// Caddy's data directory.
	Folder string `json:"folder,omitempty"`
	// Key encrypts the files: 32 bytes in hexadecimal or base64. It may be a placeholder, such as
	// {env.LLM_CACHE_KEY}. Default: the key in KeyFile.
	Key string `json:"key,omitempty"`
	// KeyFile is the file of the key, in the same form, and may hold placeholders. A missing file
	// is created with a new key, readable by its owner only. Default: a key derived from
	// llm_cache/key in Caddy's data directory.
	KeyFile string `json:"key_file,omitempty"`
	// MaxSize is the maximum of all files, in bytes. Beyond it the least recently used files go first,
	// of the credential that holds most if that is more than a quarter. At least 1 MiB.
	// Default: 268435456 (256 MiB).
	MaxSize int64 `json:"max_size,omitempty"`
	// TTL is the lifetime of a text after it was last folded or restored. At least 1m. Default: 24h.
	TTL caddy.Duration `json:"ttl,omitempty"`

	key secret.Key // set by prepare
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
		return option.ErrTwoKeys
	case o.MaxSize != 0 && o.MaxSize < smallestOriginals:
		return fmt.Errorf("max_size: %d is below %d bytes", o.MaxSize, smallestOriginals)
	case o.TTL != 0 && time.Duration(o.TTL) < time.Minute:
		return fmt.Errorf("ttl: %s is below %s", time.Duration(o.TTL), time.Minute)
	}
	return nil
}

func (o *Originals) prepare() error {
	if o == nil {
		return nil
	}
	if err := o.Validate(); err != nil {
		return err
	}
	if o.Folder == "" {
		o.Folder = filepath.Join(option.DataDir(), "originals")
	}
	o.Folder = option.Expand(o.Folder)
	if o.MaxSize == 0 {
		o.MaxSize = defaultOriginalsSize
	}
	if o.TTL == 0 {
		o.TTL = caddy.Duration(defaultOriginalsTTL)
	}
	var err error
	o.key, err = option.Key(o.Key, o.KeyFile, "originals")
	return err
}

func (o *Originals) folder() string {
	if o == nil {
		return ""
	}
	return o.Folder
}

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

// openOriginals opens the files of this configuration.
func (a *App) openOriginals() (err error) {
	running := runningOf(a.instance)
	running.Lock()
	defer running.Unlock()
	// An earlier configuration may have opened this folder.
	if a.Originals.folder() != a.share.Of.Folder {
		if a.files, err = a.Originals.open(a.logger); err != nil {
			return fmt.Errorf("originals: %w", err)
		}
	}
	return nil
}

func (a *App) adjustOriginals() error {
	s, o := a.share.Of, a.Originals
	var err error
	if o.folder() != s.Folder {
		// The texts in memory move to the new files.
		err = s.Blocks.Move(a.files)
		s.Folder, a.files = o.folder(), nil
	}
	if o == nil {
		return err
	}
	s.Blocks.SetLimits(o.MaxSize, time.Duration(o.TTL))
	return errors.Join(err, s.Blocks.SetKey(o.key))
}

// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package warm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// baseFile is a base on disk, without credentials and the client's address.
type baseFile struct {
	selfrequest.Open
	Target wire.Format `json:"target"`
	Path   string      `json:"path"`
	Uses   float64     `json:"uses"`
	Used   time.Time   `json:"used"`
}

// keptHeaders lists the headers that are written to disk.
var keptHeaders = []string{"Content-Type", "Accept", "User-Agent", "Anthropic-Version"}

const (
	baseSuffix = ".base.json"
	// saveEvery is the minimum interval between writes of a base.
	saveEvery = time.Minute
)

func (x *Server) file(b *base) string {
	// Servers may share a folder.
	name := sha256.Sum256([]byte(x.site.Queue))
	return filepath.Join(x.site.Store, b.id+"-"+hex.EncodeToString(name[:4])+baseSuffix)
}

// save writes a base to disk if the operator has set a folder, with the lock taken.
func (x *Server) save(b *base, now time.Time) {
	if x.site == nil || x.site.Store == "" || now.Sub(b.saved) < saveEvery {
		return
	}
	b.saved = now
	f := baseFile{Open: b.to.Open, Target: b.target, Path: b.path, Uses: b.uses, Used: b.used}
	f.Header = http.Header{}
	for _, name := range keptHeaders {
		if v := b.to.Header[name]; v != nil {
			f.Header[name] = v
		}
	}
	path, logger := x.file(b), x.site.Log
	go httpx.Background("keeping a base on disk", func() { // requests must not wait for the disk
		if err := writeBase(path, &f); err != nil {
			logger.Error("keeping a base on disk", zap.Error(err))
		}
	})
}

func writeBase(path string, f *baseFile) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	t, err := os.CreateTemp(filepath.Dir(path), ".base-*") // readable by its owner only
	if err != nil {
		return err
	}
	_, err = t.Write(text)
	if e := t.Close(); err == nil {
		err = e
	}
	if err == nil {
		// A crash must not leave half a base behind.
		err = os.Rename(t.Name(), path)
	}
	if err != nil {
		_ = os.Remove(t.Name())
	}
	return err
}

// remove deletes a base from disk, with the lock taken.
func (x *Server) remove(b *base) {
	if x.site.Store != "" {
		_ = os.Remove(x.file(b))
	}
}

// open reads the bases on disk, with the lock taken.
func (x *Server) open(dir string, now time.Time) {
	name := sha256.Sum256([]byte(x.site.Queue))
	suffix := "-" + hex.EncodeToString(name[:4]) + baseSuffix
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		x.site.Log.Error("looking for bases on disk", zap.Error(err))
	}
	for _, path := range files {
		b, err := readBase(path)
		if err != nil {
			// The file stays for the operator.
			x.site.Log.Error("reading a base from disk", zap.String("file", filepath.Base(path)), zap.Error(err))
			continue
		}
		b.id = filepath.Base(path)[:len(filepath.Base(path))-len(suffix)]
		b.saved = now
		// A base in memory is newer than its file.
		if x.bases[b.id] == nil {
			x.bases[b.id] = b
		}
	}
	x.limit(now, sessioncache.Tenant{})
}

func readBase(path string) (*base, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f baseFile
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	return &base{to: selfrequest.Reopen(f.Open), target: f.Target, path: f.Path, uses: f.Uses, used: f.Used}, nil
}

// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package originals

import (
	"bytes"
	"crypto/cipher"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// FilesOptions configure [Files].
type FilesOptions struct {
	// Folder contains the files. It is made with the first file. One process may use it at a time.
	Folder string
	// Key encrypts the texts and their names. Without it nothing can be read.
	Key secret.Key
	// MaxBytes bounds all files together.
	MaxBytes int64
	// TTL is how long a text is kept after it was last stored or read.
	TTL time.Duration
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Log receives each file that could not be read or written, and the error. Optional.
	Log func(file string, err error)
}

// Files keeps folded texts on disk beyond the life of the process, each in its own file. Each text
// is sealed by AES-256-GCM under the operator's key, together with the name of its file. The names
// are keyed hashes of tenant, session, conversation and block. Files has the same kinds of bounds
// as [Store]. Texts are written in the background.
type Files struct {
	folder string
	log    func(file string, err error)
	keys   *secret.Ring[*keys]

	pool   *lru.Pool[string]
	files  *lru.Cache[string, string, struct{}] // by path and tenant; its lock guards all below, too
	closed bool
	// forgotten has the path prefixes of deleted sessions, with the number of deletions by then.
	// Texts stored before the deletion must not be written.
	forgotten map[string]uint64
	forgets   uint64
	rewriting int // see putAll

	jobs      chan blockJob
	done      chan struct{}
	rewritten sync.WaitGroup
}

// blockFile is a file, by its path in the folder: the tenant's folder and its own name.
type blockFile struct {
	path string
	size int64
	at   time.Time
}

type blockJob struct {
	path, text string
	seal       cipher.AEAD
	at         time.Time
	forgets    uint64 // the number of deletions when it was stored
}

const (
	// fileMagic begins each file, and is authenticated with it.
	fileMagic = "llm_cache folded text 1\n"
	// tempPrefix begins the names of unfinished files.
	tempPrefix = ".writing-"
	// waitingJobs bounds the texts that wait to be written. Further ones are dropped.
	waitingJobs = 256
)

// blockPath matches the path of a file: the folder of its tenant, its session and the text.
var blockPath = regexp.MustCompile(`^[0-9a-f]{32}/[0-9a-f]{32}-[0-9a-f]{64}$`)

// OpenFiles opens a folder of folded texts. Foreign files are left alone, and reported to Log.
func OpenFiles(o FilesOptions) (*Files, error) {
	ring, err := secret.NewRing(newKeys, o.Key)
	if err != nil {
		return nil, err
	}
	f := &Files{
		folder: o.Folder, log: o.Log, keys: ring, pool: lru.NewPool[string](o.MaxBytes), forgotten: make(map[string]uint64),
		jobs: make(chan blockJob, waitingJobs), done: make(chan struct{}),
	}
	f.files = lru.New(lru.Options[string, string, struct{}]{Pool: f.pool, TTL: o.TTL, Now: o.Now, Dropped: f.dropped})
	if f.log == nil {
		f.log = func(string, error) {}
	}
	if err := f.scan(); err != nil {
		return nil, fmt.Errorf("folded texts: %w", err)
	}
	go f.write()
	return f, nil
}

var errForeign = errors.New("no file of folded texts")

// scan indexes the existing files.
func (f *Files) scan() error {
	var found []*blockFile
	var torn []string
	err := filepath.WalkDir(f.folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(f.folder, path)
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), tempPrefix) { // of a process that was killed
			torn = append(torn, path)
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || !blockPath.MatchString(filepath.ToSlash(name)) {
			f.log(name, errForeign)
			return nil
		}
		found = append(found, &blockFile{name, info.Size(), info.ModTime()})
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, path := range torn {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	// The index must have the files in the order of their use.
	slices.SortFunc(found, func(a, b *blockFile) int { return a.at.Compare(b.at) })
	f.files.Lock()
	defer f.files.Unlock()
	for _, e := range found {
		f.enter(e)
	}
	f.files.Expire()
	return nil
}

func (f *Files) setLimits(maxBytes int64, ttl time.Duration) {
	f.pool.SetLimit(maxBytes)
	f.files.Lock()
	defer f.files.Unlock()
	f.files.SetTTL(ttl)
}

// Close writes the texts that wait. It may be called on nil.
func (f *Files) Close() error {
	if f == nil {
		return nil
	}
	f.files.Lock()
	closed := f.closed
	f.closed = true
	f.files.Unlock()
	if !closed {
		close(f.jobs)
	}
	<-f.done
	f.rewritten.Wait()
	return nil
}

// forget removes all texts of a session, including those that wait to be written.
func (f *Files) forget(session sessioncache.Digest, t sessioncache.Tenant) {
	f.files.Lock()
	defer f.files.Unlock()
	f.forgets++
	for _, k := range f.keys.All {
		prefix := k.prefix(session, t)
		for e := range f.files.OldestOf(filepath.Dir(prefix)) {
			if strings.HasPrefix(e.Key, prefix) {
				f.files.Drop(e)
			}
		}
		// Texts that wait to be written must not be written any more.
		f.forgotten[prefix] = f.forgets
	}
}

// unwanted reports whether a text's session was deleted while the text waited. The lock is held.
func (f *Files) unwanted(j *blockJob) bool {
	prefix, _, _ := strings.Cut(j.path, "-")
	at, ok := f.forgotten[prefix+"-"]
	if len(f.jobs) == 0 && f.rewriting == 0 { // no text from before a deletion is left
		clear(f.forgotten)
	}
	return ok && j.forgets < at
}

// put schedules the writing of a text.
func (f *Files) put(k blockKey, t sessioncache.Tenant, text string, now time.Time) {
	f.files.Lock()
	defer f.files.Unlock()
	if f.closed || int64(len(text)) > f.files.Limit() {
		return
	}
	select {
	case f.jobs <- f.job(k, t, text, now):
	default:
		f.log("", errors.New("texts come faster than they are written"))
	}
}

// job is the writing of a text under the present key. The lock is held.
func (f *Files) job(k blockKey, t sessioncache.Tenant, text string, at time.Time) blockJob {
	in := f.keys.Now()
	return blockJob{in.path(k, t), text, in.seal, at, f.forgets}
}

// putAll schedules the writing of all texts of a memory store, without a bound on their number.
func (f *Files) putAll(texts []*lru.Entry[blockKey, sessioncache.Tenant, string]) {
	f.files.Lock()
	defer f.files.Unlock()
	if f.closed {
		return
	}
	all := make([]blockJob, 0, len(texts))
	for _, e := range texts {
		all = append(all, f.job(e.Key, e.Owner, e.Value, e.Used()))
	}
	f.rewriting++
	f.rewritten.Go(func() {
		for i := range all {
			f.do(&all[i])
		}
		f.files.Lock()
		f.rewriting--
		f.files.Unlock()
	})
}

// write writes texts until the channel is closed.
func (f *Files) write() {
	defer close(f.done)
	for j := range f.jobs {
		f.do(&j)
	}
}

func (f *Files) do(j *blockJob) {
	if err := f.keep(j); err != nil {
		f.log(j.path, err)
	}
}

// ErrPanic is the error of a write that panicked.
var ErrPanic = errors.New("recovered from a panic")

// keep writes one text, unless it exists already.
func (f *Files) keep(j *blockJob) (err error) {
	defer func() {
		if p := recover(); p != nil { // the panic's value may quote a text
			err = fmt.Errorf("%w: %T", ErrPanic, p)
		}
	}()
	if f.touch(j.path, j.at) {
		return nil
	}
	size, err := f.save(j)
	if err != nil {
		return err
	}
	f.files.Lock()
	defer f.files.Unlock()
	// The session was deleted during the write.
	if f.unwanted(j) {
		return os.Remove(filepath.Join(f.folder, j.path))
	}
	f.enter(&blockFile{j.path, size, j.at})
	return nil
}

// touch marks a file as used and reports whether it exists.
func (f *Files) touch(path string, now time.Time) bool {
	f.files.Lock()
	defer f.files.Unlock()
	e := f.files.Get(path)
	if e == nil {
		return false
	}
	f.files.Use(e)
	f.files.UsedAt(e, now)
	if err := os.Chtimes(filepath.Join(f.folder, path), now, now); err != nil {
		f.log(path, err)
	}
	return true
}

func (f *Files) save(j *blockJob) (int64, error) {
	//nolint:gosec // the cipher makes its own nonce
	out := j.seal.Seal([]byte(fileMagic), nil, []byte(j.text), sealed(j.path))
	path := filepath.Join(f.folder, j.path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return 0, err
	}
	t, err := os.CreateTemp(filepath.Dir(path), tempPrefix) // readable by its owner only
	if err != nil {
		return 0, err
	}
	_, err = t.Write(out)
	if e := t.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Chtimes(t.Name(), j.at, j.at)
	}
	if err == nil {
		// A rename is atomic, so that no reader sees a part of the file.
		err = os.Rename(t.Name(), path)
	}
	if err != nil {
		_ = os.Remove(t.Name())
	}
	return int64(len(out)), err
}

// sealed returns the authenticated data of a text. It contains the path, so that a renamed file
// cannot be read.
func sealed(path string) []byte { return []byte(fileMagic + filepath.ToSlash(path)) }

var errNotOurs = errors.New("corrupt, or under another key")

// get reads a text. A text under an earlier key is stored again under the present one.
func (f *Files) get(k blockKey, t sessioncache.Tenant, now time.Time) (string, bool) {
	for i, under := range f.keys.All {
		path := under.path(k, t)
		if !f.touch(path, now) {
			continue
		}
		text, err := f.load(path, under.seal)
		if err != nil {
			f.log(path, err)
			f.files.Lock()
			if e := f.files.Get(path); e != nil {
				f.files.Drop(e)
			}
			f.files.Unlock()
			continue
		}
		if i > 0 {
			// Store the text again under the present key.
			f.put(k, t, text, now)
		}
		return text, true
	}
	return "", false
}

func (f *Files) load(path string, seal cipher.AEAD) (string, error) {
	raw, err := os.ReadFile(filepath.Join(f.folder, path))
	if err != nil {
		return "", err
	}
	body, ok := bytes.CutPrefix(raw, []byte(fileMagic))
	if !ok {
		return "", errNotOurs
	}
	text, err := seal.Open(nil, nil, body, sealed(path))
	if err != nil {
		return "", errNotOurs
	}
	return string(text), nil
}

// enter adds a file to the index. The lock is held.
func (f *Files) enter(b *blockFile) {
	e := f.files.Get(b.path)
	if e != nil { // the same text, written twice at once
		f.files.Use(e)
	} else {
		e = f.files.Put(b.path, filepath.Dir(b.path), struct{}{}, b.size)
	}
	f.files.UsedAt(e, b.at)
}

// dropped removes the file of an entry that has left the cache.
func (f *Files) dropped(e *lru.Entry[string, string, struct{}]) {
	if f.closed { // the folder may be another process's by now
		return
	}
	if err := os.Remove(filepath.Join(f.folder, e.Key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.log(e.Key, err)
	}
	if f.files.BytesOf(e.Owner) == 0 {
		_ = os.Remove(filepath.Join(f.folder, e.Owner)) // if it is empty
	}
}

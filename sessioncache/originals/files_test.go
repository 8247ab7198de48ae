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
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

var (
	filesAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one     = &owner{digest: sessioncache.Digest([]byte("digest of one...")), tenant: sessioncache.Tenant{1}}
	two     = &owner{digest: sessioncache.Digest([]byte("digest of two...")), tenant: sessioncache.Tenant{2}}
	scope   = wire.Hash{1}
)

// clocked is a store whose calls say the time.
type clocked struct {
	*Store
	at atomic.Int64 // nanoseconds
}

func (c *clocked) now() time.Time { return time.Unix(0, c.at.Load()) }

func (c *clocked) Put(s Owner, scope wire.Hash, name, text string, now time.Time) {
	c.at.Store(now.UnixNano())
	c.Store.Put(s, scope, name, text)
}

func (c *clocked) Get(s Owner, scope wire.Hash, name string, now time.Time) (string, bool) {
	c.at.Store(now.UnixNano())
	return c.Store.Get(s, scope, name)
}

// clockedAt returns a clock without a store.
func clockedAt(now time.Time) *clocked {
	c := new(clocked)
	c.at.Store(now.UnixNano())
	return c
}

// over gives the clock a store.
func (c *clocked) over(f *Files) *clocked {
	c.Store = New(lru.NewPool[sessioncache.Tenant](DefaultMemory), f, c.now)
	return c
}

// opened opens a folder of texts, and tells which files were logged.
func opened(t *testing.T, o FilesOptions, now time.Time) (*clocked, *[]string) {
	t.Helper()
	var logged []string
	o.Log = func(file string, err error) { logged = append(logged, file+": "+err.Error()) }
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 20
	}
	if o.TTL == 0 {
		o.TTL = time.Hour
	}
	c := clockedAt(now)
	o.Now = c.now
	f, err := OpenFiles(o)
	if err != nil {
		t.Fatal(err)
	}
	b := c.over(f)
	t.Cleanup(func() { _ = b.Close() })
	return b, &logged
}

// written are the files in a folder, by their names.
func written(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s may be read by others: %v", path, info.Mode())
		}
		text, err := os.ReadFile(path)
		out[path] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A later process finds the texts of an earlier one, with the same key and folder, until they
// expire. The files reveal nothing of the texts.
func TestFiles(t *testing.T) {
	o := FilesOptions{Folder: filepath.Join(t.TempDir(), "a", "b"), Key: secret.Key{7}}
	b, _ := opened(t, o, filesAt)
	b.Put(one, scope, "01234567", "a secret text", filesAt)
	b.Put(one, scope, "01234567", "a secret text", filesAt) // there already
	b.Put(two, scope, "01234567", "another's", filesAt)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b.Put(one, scope, "89abcdef", "too late", filesAt)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	files := written(t, o.Folder)
	if len(files) != 2 {
		t.Errorf("there are %d files", len(files))
	}
	for path, text := range files {
		for _, secret := range []string{"secret", "another", "01234567", "digest of"} {
			if strings.Contains(path, secret) || bytes.Contains(text, []byte(secret)) {
				t.Errorf("%q can be read in %s", secret, path)
			}
		}
	}

	b, logged := opened(t, o, filesAt.Add(50*time.Minute))
	for name, c := range map[string]struct {
		s     *owner
		scope wire.Hash
		name  string
		want  string
	}{
		"its own":              {one, scope, "01234567", "a secret text"},
		"another's":            {two, scope, "01234567", "another's"},
		"its session only":     {&owner{digest: one.digest, tenant: two.tenant}, scope, "01234567", ""},
		"another session":      {&owner{digest: sessioncache.Digest{1}, tenant: one.tenant}, scope, "01234567", ""},
		"another conversation": {one, wire.Hash{2}, "01234567", ""},
		"another name":         {one, scope, "89abcdef", ""},
	} {
		if got, ok := b.Get(c.s, c.scope, c.name, filesAt.Add(50*time.Minute)); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %t", name, got, ok)
		}
	}
	if len(*logged) > 0 {
		t.Errorf("logged %q", *logged)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}

	// A text that was read is kept for longer, across a restart, too; the others expire.
	b, _ = opened(t, o, filesAt.Add(100*time.Minute))
	if got, ok := b.Get(one, scope, "01234567", filesAt.Add(100*time.Minute)); !ok || got != "a secret text" {
		t.Errorf("got %q", got)
	}
	if _, ok := b.Get(one, scope, "01234567", filesAt.Add(3*time.Hour)); ok {
		t.Error("it was kept for too long")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if files := written(t, o.Folder); len(files) != 1 {
		t.Errorf("left are %d files", len(files))
	}
	if _, _ = opened(t, o, filesAt.Add(3*time.Hour)); len(written(t, o.Folder)) != 0 {
		t.Error("what is too old was not removed")
	}
}

// Files that are foreign, corrupt, renamed or under another key are reported, and are not read as
// texts.
func TestFilesThatAreNone(t *testing.T) {
	text := strings.Repeat("a secret text ", 10)
	for name, c := range map[string]struct {
		spoil  func(path string) error
		key    byte
		opens  string // logged when the folder is opened
		asking string // logged when the text is asked for
		stays  bool
	}{
		"corrupt": {func(path string) error {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			raw[len(raw)-20] ^= 1
			return os.WriteFile(path, raw, 0o600)
		}, 7, "", "corrupt", false},
		"cut":       {func(path string) error { return os.Truncate(path, 10) }, 7, "", "corrupt", false},
		"empty":     {func(path string) error { return os.Truncate(path, 0) }, 7, "", "corrupt", false},
		"other key": {func(string) error { return nil }, 8, "", "", true},
		"renamed": {func(path string) error {
			return os.Rename(path, filepath.Join(filepath.Dir(path), strings.Repeat("0", 32)+"-"+strings.Repeat("0", 64)))
		}, 7, "", "", true},
		"foreign": {func(path string) error {
			return os.Rename(path, filepath.Join(filepath.Dir(path), "notes.txt"))
		}, 7, "no file of folded texts", "", true},
		"being written": {func(path string) error {
			return os.Rename(path, filepath.Join(filepath.Dir(path), tempPrefix+"1"))
		}, 7, "", "", false},
		"gone": {os.Remove, 7, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := FilesOptions{Folder: t.TempDir(), Key: secret.Key{7}}
			b, _ := opened(t, o, filesAt)
			b.Put(one, scope, "01234567", text, filesAt)
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			for path := range written(t, o.Folder) {
				if err := c.spoil(path); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(path); err == nil {
					if err := os.Chtimes(path, filesAt, filesAt); err != nil {
						t.Fatal(err)
					}
				}
			}
			o.Key = secret.Key{c.key}
			b, logged := opened(t, o, filesAt)
			expect := func(when, want string) {
				t.Helper()
				if all := strings.Join(*logged, "\n"); want == "" && all != "" || !strings.Contains(all, want) ||
					strings.Contains(all, "secret") {
					t.Errorf("%s: logged %q, want %q", when, all, want)
				}
				*logged = nil
			}
			expect("opening", c.opens)
			if got, ok := b.Get(one, scope, "01234567", filesAt); ok {
				t.Errorf("got %q", got)
			}
			expect("asking", c.asking)
			if left := len(written(t, o.Folder)); (left == 1) != c.stays {
				t.Errorf("left are %d files", left)
			}
		})
	}
}

// The files have a bound: a tenant that holds more than a quarter of it gives way first, and others
// keep theirs.
func TestFilesAreBounded(t *testing.T) {
	o := FilesOptions{Folder: t.TempDir(), MaxBytes: 280_000}
	b, _ := opened(t, o, filesAt)
	text := strings.Repeat("x", 20_000)
	put := func(s *owner, from, to int) {
		for i := from; i < to; i++ {
			b.Put(s, scope, fmt.Sprintf("%08d", i), text, filesAt.Add(time.Duration(i)*time.Second))
		}
	}
	put(two, 0, 1)
	put(one, 0, 20)
	b.Put(one, scope, "too long", strings.Repeat("x", 600_000), filesAt)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	now := filesAt.Add(time.Minute)
	b, logged := opened(t, o, now)
	kept := func(s *owner) (names []int) {
		for i := range 20 {
			if _, ok := b.Get(s, scope, fmt.Sprintf("%08d", i), now); ok {
				names = append(names, i)
			}
		}
		return names
	}
	if got := kept(one); !slices.Equal(got, []int{8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}) {
		t.Errorf("of one tenant are left %v", got)
	}
	if got := kept(two); !slices.Equal(got, []int{0}) {
		t.Errorf("of the other are left %v", got)
	}
	if _, ok := b.Get(one, scope, "too long", now); ok {
		t.Error("a text beyond the bound was kept")
	}
	b.SetLimits(20_000, time.Hour) // a file is longer
	if got := append(kept(one), kept(two)...); len(got) != 0 {
		t.Errorf("left are %v", got)
	}
	if left := written(t, o.Folder); len(left) != 0 || len(*logged) != 0 {
		t.Errorf("left are %d files; logged %q", len(left), *logged)
	}
}

// TestWritingPanics: a panic during a write is reported, and the next text is written.
func TestWritingPanics(t *testing.T) {
	var logged []error
	f, err := OpenFiles(FilesOptions{
		Folder: t.TempDir(), MaxBytes: 1 << 20, TTL: time.Hour,
		Now: func() time.Time { return filesAt }, Log: func(_ string, err error) { logged = append(logged, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	f.keys.Now().seal = failingSeal{f.keys.Now().seal}
	b := clockedAt(filesAt).over(f)
	for _, text := range []string{"panic", "text"} {
		b.Put(one, scope, text, text, filesAt)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if len(logged) != 1 || !errors.Is(logged[0], ErrPanic) || strings.Contains(logged[0].Error(), "quoted") {
		t.Errorf("logged %v", logged)
	}
	if f.files.Len() != 1 {
		t.Errorf("%d files", f.files.Len())
	}
}

type failingSeal struct{ cipher.AEAD }

func (s failingSeal) Seal(dst, nonce, plain, data []byte) []byte {
	if string(plain) == "panic" {
		panic("quoted: " + string(plain))
	}
	return s.AEAD.Seal(dst, nonce, plain, data)
}

// A change of the folder or of the key loses no texts of the process. Texts in memory are written
// to the new folder, and texts under an earlier key are found and stored again.
func TestMove(t *testing.T) {
	dir := t.TempDir()
	a := FilesOptions{Folder: filepath.Join(dir, "a"), Key: secret.Key{7}}
	b := clockedAt(filesAt).over(nil)
	b.Put(one, scope, "early", "put before there were files", filesAt)
	files := func(o FilesOptions) *Files {
		o.MaxBytes, o.TTL = 1<<20, time.Hour
		o.Now = func() time.Time { return filesAt }
		f, err := OpenFiles(o)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if err := b.Move(files(a)); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	wantFiles := func(b *clocked, want ...string) {
		t.Helper()
		for _, name := range want {
			if _, ok := b.Get(one, scope, name, filesAt); !ok {
				t.Errorf("%s is lost", name)
			}
		}
	}
	b, _ = opened(t, a, filesAt)
	wantFiles(b, "early")
	b.Put(one, scope, "later", "put under the first key", filesAt)
	for range 2 {
		if err := b.SetKey(secret.Key{8}); err != nil {
			t.Fatal(err)
		}
	}
	wantFiles(b, "early", "later")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b, _ = opened(t, FilesOptions{Folder: a.Folder, Key: secret.Key{8}}, filesAt)
	wantFiles(b, "early", "later")
	b.Forget(one)
	if _, ok := b.Get(one, scope, "early", filesAt); ok {
		t.Error("what was forgotten is there")
	}
	if err := b.Move(nil); err != nil {
		t.Fatal(err)
	}
}

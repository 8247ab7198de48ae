// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/valkey-io/valkey-go"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// asideKeys returns the keys of staged sessions.
func asideKeys(m *miniredis.Miniredis) (out []string) {
	for _, key := range m.Keys() {
		if strings.Contains(key, "}:") {
			out = append(out, key)
		}
	}
	return out
}

func swaps(t *testing.T, v *Valkey, snapshot string, have, next sessioncache.Version, wins bool) {
	t.Helper()
	r := sessioncache.Record{Digest: sessioncache.Digest{1}, Snapshot: []byte(snapshot)}
	w := &sessioncache.Swap{Record: r, Have: have, Next: next}
	v.Swap(t.Context(), []*sessioncache.Swap{w})
	if w.Err != nil || (w.Now == next) != wins {
		t.Fatalf("%q: version %d of %d: %v", snapshot, w.Now, next, w.Err)
	}
}

func is(t *testing.T, v *Valkey, want string, version sessioncache.Version) {
	t.Helper()
	if got, now, err := v.Fetch(t.Context(), sessioncache.Digest{1}, 0); err != nil || string(got) != want ||
		now != version {
		t.Errorf("%q of version %d, not %q of %d: %v", got, now, want, version, err)
	}
}

// large makes a snapshot one that is written aside.
func large(snapshot string) string { return snapshot + strings.Repeat(".", inline) }

// No staged session remains, neither after a swap nor after a lost race.
func TestNothingIsLeftAside(t *testing.T) {
	m := miniredis.RunT(t)
	v := open(t, m)
	defer v.Close()
	swaps(t, v, large("one"), 0, 1, true)
	swaps(t, v, large("late"), 0, 2, false)
	swaps(t, v, large("two"), 1, 3, true)
	if left := asideKeys(m); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	is(t, v, large("two"), 3)
}

// A process that ends between staging and swapping changes nothing, and the staged session expires.
func TestInterruptedAside(t *testing.T) {
	m := miniredis.RunT(t)
	v := open(t, m)
	defer v.Close()
	swaps(t, v, large("one"), 0, 1, true)
	key := v.key([8]byte{1})
	c, err := v.use()
	if err != nil {
		t.Fatal(err)
	}
	r := sessioncache.Record{Digest: sessioncache.Digest{1}, Snapshot: []byte(large("interrupted"))}
	if err := c.Do(t.Context(),
		c.B().Set().Key(stagingKey(key, 2)).Value(valkey.BinaryString(pack(&r,
			2))).PxMilliseconds(time.Hour.Milliseconds()).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	is(t, v, large("one"), 1)
	swaps(t, v, large("three"), 1, 3, true)
	is(t, v, large("three"), 3)
	if len(asideKeys(m)) != 1 {
		t.Errorf("aside: %q", asideKeys(m))
	}
	m.FastForward(2 * time.Hour)
	if left := m.Keys(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A staged session that the server has evicted leaves the session unchanged: the server may evict
// any key at any time.
func TestEvictedAside(t *testing.T) {
	m := miniredis.RunT(t)
	v := open(t, m)
	defer v.Close()
	swaps(t, v, large("one"), 0, 1, true)
	key := v.key([8]byte{1})
	c, err := v.use()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Do(t.Context(), c.B().Eval().Script(swapScript).Numkeys(2).Key(key,
		stagingKey(key, 2)).Arg(form(1)).Build()).Error(); err == nil {
		t.Error("what is not there has taken the place of a session")
	}
	is(t, v, large("one"), 1)
	swaps(t, v, large("two"), 1, 2, true)
}

// A restarted server, or one with flushed scripts, gets the script again.
func TestForgottenScript(t *testing.T) {
	m := miniredis.RunT(t)
	v := open(t, m)
	defer v.Close()
	c, err := v.use()
	if err != nil {
		t.Fatal(err)
	}
	for i := range sessioncache.Version(3) {
		swaps(t, v, "x", i, i+1, true)
		if err := c.Do(t.Context(), c.B().ScriptFlush().Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if left := asideKeys(m); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A damaged entry costs its session only: it counts as deleted or cannot be opened, and is written
// again.
func TestDamagedEntry(t *testing.T) {
	for name, damaged := range map[string]string{
		"short": "abc", "a version": "abcdefgh", "no head": "abcdefghijklmnop",
		"fewer answers": "abcdefgh0123456789abcdef\xff0123456789abcdefgh",
	} {
		t.Run(name, func(t *testing.T) {
			m := miniredis.RunT(t)
			v := open(t, m)
			defer v.Close()
			if err := m.Set(v.key([8]byte{1}), damaged); err != nil {
				t.Fatal(err)
			}
			_, now, err := v.Fetch(t.Context(), sessioncache.Digest{1}, 0)
			if err != nil {
				t.Error(err)
			}
			for _, f := range []func() error{
				func() error { _, _, err := v.Answered(t.Context(), sessioncache.Digest{2}); return err },
				func() error { _, _, err := v.Named(t.Context(), [8]byte{1}); return err },
			} {
				if err := f(); err != nil {
					t.Error(err)
				}
			}
			swaps(t, v, "anew", now, 7, true)
			is(t, v, "anew", 7)
		})
	}
}

// Until a written session is read back, the old version counts. Foreign changes meanwhile are
// noticed all the same.
func TestWritingChangesNothing(t *testing.T) {
	v := new(Valkey)
	w, b := &v.watch, [8]byte{1}
	w.on.Store(true)
	unchanged := func(have sessioncache.Version) bool { return v.Unchanged(sessioncache.Digest{1}, have) }
	w.writes(b)
	if unchanged(1) || unchanged(0) {
		t.Error("a session is known that is being written for the first time")
	}
	w.wrote(b, 1)
	w.writes(b)
	if !unchanged(1) || unchanged(2) {
		t.Error("a session that is being written is not what it was")
	}
	w.wrote(b, 2)
	if unchanged(1) || !unchanged(2) {
		t.Error("what was written is not known")
	}
	w.writes(b)
	w.invalidate(nil)
	w.wrote(b, 3)
	if unchanged(2) || unchanged(3) {
		t.Error("what was told while it was written is forgotten")
	}
}

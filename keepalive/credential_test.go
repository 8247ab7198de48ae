// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestCredentialTellsNothing(t *testing.T) {
	const key = "sk-ant-not-to-be-seen"
	c := new(Credential)
	c.Seal("X-Api-Key", key)
	wrapped := struct{ C *Credential }{c}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+" "+verb+"\n", c, wrapped)
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "c", c, "w", wrapped)
	if b, err := json.Marshal(wrapped); err == nil {
		t.Errorf("it was encoded as JSON: %s", b)
	}
	if err := gob.NewEncoder(&out).Encode(wrapped); err == nil {
		t.Error("it was encoded as gob")
	}
	if strings.Contains(out.String(), key) || strings.Contains(out.String(), fmt.Sprintf("%x", key)) {
		t.Errorf("it was shown: %s", out.String())
	}
	got := ""
	c.Reveal(func(name, value string) { got = name + "=" + value })
	if got != "X-Api-Key="+key {
		t.Errorf("revealed %q", got)
	}
	c.Wipe()
	c.Reveal(func(name, value string) { t.Errorf("after the wipe: %s=%s", name, value) })
}

// A heap dump shows no key, neither before nor after the wipe.
func TestHeapShowsNoKey(t *testing.T) {
	// The key must not be a constant: the program's own data would show it.
	half := []byte("fpoa")
	part := func() string { // decoded each time, so no copy stays behind
		b := bytes.Clone(half)
		for i := range b {
			b[i] ^= 7
		}
		return strings.Repeat(string(b), 9)
	}
	c := new(Credential)
	c.Seal("X-Api-Key", part())
	c.Reveal(func(string, string) {})
	dump := func(name string) []byte {
		runtime.GC()
		runtime.GC()
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		debug.WriteHeapDump(f.Fd())
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	kept := dump("kept")
	if len(kept) == 0 {
		t.Fatal("the dump is empty")
	}
	if bytes.Contains(kept, []byte(part())) {
		t.Error("the key shows in a dump of the heap while it is kept")
	}
	runtime.KeepAlive(c)
	c.Wipe()
	if bytes.Contains(dump("wiped"), []byte(part())) {
		t.Error("the key shows in a dump of the heap after the wipe")
	}
	runtime.KeepAlive(c)
	plain := part()
	if !bytes.Contains(dump("plain"), []byte(part())) {
		t.Error("the test proves nothing: a plain key does not show either")
	}
	runtime.KeepAlive(plain)
}

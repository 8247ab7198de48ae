// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// childConfig is the configuration of the child process of this test.
const childConfig = "LLM_CACHE_TEST_CONFIG"

// TestServer is the child process: it serves a site and obeys commands on its input.
func TestServer(t *testing.T) {
	config := os.Getenv(childConfig)
	if config == "" {
		t.Skip("runs as a child process of other tests")
	}
	if err := caddy.Load([]byte(config), true); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	for in.Scan() {
		word, rest, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "advance":
			d, err := time.ParseDuration(rest)
			if err != nil {
				t.Fatal(err)
			}
			advance(d)
			fmt.Println("pings", settled().Sum.Pings)
		case "dump":
			for range 3 { // sync.Pool frees its content after two collections
				runtime.GC()
			}
			f, err := os.Create(rest)
			if err != nil {
				t.Fatal(err)
			}
			debug.WriteHeapDump(f.Fd())
			_ = f.Close()
			fmt.Println("dumped")
		}
	}
}

// child is the child process as its parent sees it.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startChild(t *testing.T, config string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestServer$")
	cmd.Env = append(os.Environ(), childConfig+"="+config)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := &child{t, cmd, in, bufio.NewScanner(out)}
	c.wait("ready")
	return c
}

// wait reads the child's output up to a line that begins with a word.
func (c *child) wait(word string) string {
	c.t.Helper()
	for c.out.Scan() {
		if strings.HasPrefix(c.out.Text(), word) {
			return c.out.Text()
		}
	}
	c.t.Fatalf("the child has ended before it said %q", word)
	return ""
}

func (c *child) tell(line, answer string) string {
	c.t.Helper()
	fmt.Fprintln(c.in, line)
	return c.wait(answer)
}

// shows reports whether a heap dump of the child contains a text.
func (c *child) shows(text string) bool {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "heap")
	c.tell("dump "+file, "dumped")
	dump, err := os.ReadFile(file)
	if err != nil || len(dump) == 0 {
		c.t.Fatalf("a dump of %d bytes, %v", len(dump), err)
	}
	return bytes.Contains(dump, []byte(text))
}

// keepsShowing reports whether heap dumps still show a text after the child had time to close its
// connections.
func (c *child) keepsShowing(text string) bool {
	for range 200 {
		if !c.shows(text) {
			return false
		}
		time.Sleep(50 * time.Millisecond)
	}
	return true
}

// A server's heap shows no key of a client while its conversation is idle, after a ping, and after
// the end. Neither do its logs; the access log leaves out headers that Caddy does not know as
// secret. Connections are closed first: an open one may keep the last request's headers in its
// buffers.
func TestNoKeyInHeapOrLogs(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("heap dumps need a file descriptor")
	}
	k := newKept(t)
	k.key = "sk-ant-" + randomHex()
	k.up.Config.SetKeepAlivesEnabled(false)
	http.DefaultClient.CloseIdleConnections()
	encoder := `"encoder": {"format": "filter", "wrap": {"format": "json"}, "fields": {"request>headers>X-Api-Key": ` +
		`{"filter": "delete"}}}, "level": "DEBUG", `
	config := strings.Replace(k.config(keeping, ""), `"default": {`, `"default": {`+encoder, 1)
	c := startChild(t, config)

	inside := make(chan bool, 1)
	k.hook = func() { inside <- c.shows(k.key) }
	k.ask(1)
	k.hook = nil
	if !<-inside {
		t.Fatal("the test proves nothing: the key does not show while a request is under way either")
	}
	k.ask(2)
	http.DefaultClient.CloseIdleConnections()
	if c.keepsShowing(k.key) {
		t.Error("the key shows while the conversation is idle")
	}
	for range 3 {
		c.tell("advance "+wait.String(), "pings")
	}
	pings := k.pings()
	if len(pings) == 0 || k.got[pings[0]].Header.Get("X-Api-Key") != k.key {
		t.Fatalf("%d pings arrived with the key", len(pings))
	}
	if c.keepsShowing(k.key) {
		t.Errorf("the key shows after %d pings", len(pings))
	}
	c.tell("advance 24h", "pings")
	if c.keepsShowing(k.key) {
		t.Error("the key shows after the end")
	}
	log, err := os.ReadFile(k.log)
	if err != nil || !bytes.Contains(log, []byte("handled request")) {
		t.Fatalf("a log of %d bytes, %v", len(log), err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, k.key) {
			t.Errorf("a key in the log: %s", line)
		}
	}
	// After a kill and a restart, the server has no conversations and sends no pings.
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	before := len(k.pings())
	c = startChild(t, config)
	c.tell("advance "+wait.String(), "pings")
	if n := len(k.pings()) - before; n != 0 {
		t.Errorf("%d pings by a process that has seen no request", n)
	}
}

func randomHex() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

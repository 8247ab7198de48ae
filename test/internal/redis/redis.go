// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package redis runs Redis servers of Debian's packages, for tests.
package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ErrMissing reports that no Redis is installed.
var ErrMissing = errors.New("no Redis is installed: apt-get install redis-server")

// Server is a Redis server, which keeps what it has in memory only.
type Server struct {
	// Addr is where it is, up or not.
	Addr string

	dir  string
	args []string
	tls  []string // how redis-cli connects
	cmd  *exec.Cmd
	done chan struct{}
}

// New makes a server in a folder, which must be its own, at an address of the loopback
// interface. It is not started. Args are further settings, each with two dashes in front.
func New(dir, addr string, args ...string) (*Server, error) {
	for _, program := range []string{"redis-server", "redis-cli"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, ErrMissing
		}
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	s := &Server{Addr: addr, dir: dir}
	s.args = append([]string{"--port", port, "--bind", host, "--dir", dir, "--save", "", "--logfile", filepath.Join(dir, "log")}, args...)
	return s, nil
}

// NewTLS makes a server that only takes encrypted connections, by the files of a
// certificate and its key. CA is whose certificate it is.
func NewTLS(dir, addr, cert, key, ca string) (*Server, error) {
	_, port, _ := net.SplitHostPort(addr)
	s, err := New(dir, addr, "--port", "0", "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca, "--tls-auth-clients", "no")
	if err == nil {
		s.tls = []string{"--tls", "--cacert", ca}
	}
	return s, err
}

// NewSentinel makes a sentinel that watches a server under the name main.
func NewSentinel(dir, addr, watched string) (*Server, error) {
	s, err := New(dir, addr)
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(watched)
	config := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor main %s %s 1\nsentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 5000\n", host, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	_, own, _ := net.SplitHostPort(addr)
	s.args = []string{config, "--sentinel", "--port", own, "--bind", host, "--dir", dir, "--logfile", filepath.Join(dir, "log")}
	return s, nil
}

// Start starts the server, and waits until it answers.
func (s *Server) Start(ctx context.Context) error {
	cmd := exec.Command("redis-server", s.args...) //nolint:gosec // G204: tests say with what
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	s.cmd, s.done = cmd, make(chan struct{})
	go func(done chan struct{}) {
		_ = cmd.Wait()
		close(done)
	}(s.done)
	if err := s.Until(ctx, "PONG", "PING"); err != nil {
		s.Kill()
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		return fmt.Errorf("%w\n%s", err, log)
	}
	return nil
}

// Do runs a command, and returns what the server says, as redis-cli prints it.
func (s *Server) Do(ctx context.Context, args ...string) (string, error) {
	host, port, _ := net.SplitHostPort(s.Addr)
	all := append(append([]string{"-h", host, "-p", port}, s.tls...), args...)
	out, err := exec.CommandContext(ctx, "redis-cli", all...).CombinedOutput()
	said := strings.TrimSpace(string(out))
	if err != nil {
		return said, fmt.Errorf("redis: %s: %w: %s", strings.Join(args, " "), err, said)
	}
	return said, nil
}

// Until runs a command until what the server says holds a text.
func (s *Server) Until(ctx context.Context, text string, args ...string) error {
	for {
		said, err := s.Do(ctx, args...)
		if err == nil && strings.Contains(said, text) {
			return nil
		}
		select {
		case <-s.done:
			return errors.New("redis: the server has ended")
		case <-ctx.Done():
			return fmt.Errorf("redis: %s says %q, and never %q", strings.Join(args, " "), said, text)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Kill ends the server at once; all that it had is gone.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.done
}

// Pause has the server do nothing, with all connections open, until [Server.Resume].
func (s *Server) Pause() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a pause.
func (s *Server) Resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

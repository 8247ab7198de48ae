// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package postgres runs a PostgreSQL server from Debian's packages, for tests.
package postgres

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/process"
)

// ErrMissing reports that PostgreSQL is not installed.
var ErrMissing = errors.New("no PostgreSQL is installed: apt-get install postgresql")

// Server is a PostgreSQL server with its own database.
type Server struct {
	// DSN is the connection string of the server, running or not.
	DSN string

	bin, dir, port string
	as             *owner // the server's user, nil for the current one
}

// New makes a server in an empty folder, on a port of the loopback interface, without starting it.
// The server refuses to run as root, so for root it runs as the user postgres.
func New(dir, addr string) (*Server, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return nil, ErrMissing
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s := &Server{DSN: "postgres://llm@" + addr + "/postgres", bin: filepath.Dir(found[len(found)-1]), dir: dir, port: port}
	if os.Getuid() == 0 {
		if s.as, err = unprivileged(); err != nil {
			return nil, fmt.Errorf("postgres: %w", err)
		}
		if err := os.Chown(dir, int(s.as.uid), int(s.as.gid)); err != nil {
			return nil, fmt.Errorf("postgres: %w", err)
		}
	}
	return s, s.run("initdb", "-D", s.data(), "-A", "trust", "-U", "llm", "--no-sync")
}

// owner is a user with its group.
type owner struct{ uid, gid uint32 }

func unprivileged() (*owner, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &owner{uint32(uid), uint32(gid)}, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Start starts the server and waits until it accepts connections.
func (s *Server) Start() error {
	return s.run("pg_ctl", "-D", s.data(), "-w", "-l", filepath.Join(s.dir, "log"), "-o",
		fmt.Sprintf("-p %s -k %s -c listen_addresses=127.0.0.1", s.port, s.dir), "start")
}

// Stop stops the server and cuts its connections.
func (s *Server) Stop() error {
	return s.run("pg_ctl", "-D", s.data(), "-w", "-m", "immediate", "stop")
}

func (s *Server) run(name string, args ...string) error {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	if s.as != nil {
		process.As(cmd, s.as.uid, s.as.gid)
	}
	// The server inherits pg_ctl's output and keeps it open. A pipe would never end, so the output
	// goes to a file.
	out, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(out.Name())
		return fmt.Errorf("postgres: %s: %w\n%s", name, err, said)
	}
	return nil
}

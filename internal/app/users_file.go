// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
)

const (
	// usersPoll is the time between looks at the users file.
	usersPoll = 5 * time.Second
	// maxUsersFile bounds the users file, in bytes.
	maxUsersFile = 8 << 20
)

// usersFile is the content of a file with users.
type usersFile struct {
	users  []User
	groups []Group
	state  fileState
}

// fileState tells whether a file has changed.
type fileState struct {
	modified time.Time
	size     int64
}

func stateOf(name string) (s fileState, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return s, err
	}
	return fileState{info.ModTime(), info.Size()}, nil
}

// readUsers reads the users of a file in the syntax of a Caddyfile: blocks user and group. Without a
// name it returns no users.
func readUsers(name string) (*usersFile, error) {
	f := new(usersFile)
	if name == "" {
		return f, nil
	}
	var err error
	// The state is of before the reading, so that no change is missed.
	if f.state, err = stateOf(name); err != nil {
		return nil, err
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxUsersFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxUsersFile {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxUsersFile)
	}
	if len(text) == 0 { // the lexer calls it an error
		return f, nil
	}
	tokens, err := caddyfile.Tokenize(text, name)
	if err != nil {
		return nil, err
	}
	d := caddyfile.NewDispenser(tokens)
	for d.Next() {
		switch d.Val() {
		case "user":
			err = parseUser(d, &f.users)
		case "group":
			err = parseGroup(d, &f.groups)
		default:
			// The word is not told: it may be a key.
			err = d.Err("a users file has the blocks user and group only")
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// loadUsers reads the users file and puts the users in force.
func (a *App) loadUsers() error {
	file, err := readUsers(a.usersPath)
	if err != nil {
		return fmt.Errorf("users_file: %w", err)
	}
	d, err := a.directory(file)
	if err != nil {
		return err
	}
	if err := a.keepsBudgets(d); err != nil {
		return err
	}
	a.usersRead = file.state
	a.users.Store(d)
	return nil
}

// watchUsers reads the users file again when it changes, until ctx ends. A file with mistakes changes
// nothing, and is logged once.
func (a *App) watchUsers(ctx context.Context) {
	if a.usersPath == "" {
		return
	}
	go httpx.Background("watching the users file", func() {
		tick := time.NewTicker(usersPoll)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				a.reloadUsers()
			}
		}
	})
}

func (a *App) reloadUsers() {
	now, err := stateOf(a.usersPath)
	if now == a.usersRead {
		return
	}
	a.usersRead = now
	if err == nil {
		err = a.loadUsers()
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		a.logger.Error("users file is gone: the users read last stay", zap.String("file", a.usersPath))
	case err != nil:
		a.logger.Error("users file has a mistake: the users read last stay", zap.Error(err))
	default:
		a.useReread()
		a.logger.Info("users file read again", zap.String("file", a.usersPath))
	}
}

"""Tests of what runs in processes of its own: each test starts some, and most are killed, stopped or raced."""

"""One small file per framework; `ALL` names them."""

-- MySQL dump
CREATE TABLE `xxl_job_info` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `job_group` int(11) NOT NULL COMMENT 'executor, by its id',
  `job_desc` varchar(255) NOT NULL,
  `add_time` datetime DEFAULT NULL,
  `update_time` datetime DEFAULT NULL,
  `author` varchar(64) DEFAULT NULL,
  `alarm_email` varchar(255) DEFAULT NULL,
  `schedule_type` varchar(50) NOT NULL DEFAULT 'NONE',
  `schedule_conf` varchar(128) DEFAULT NULL,
  `misfire_strategy` varchar(50) NOT NULL DEFAULT 'DO_NOTHING',
  `executor_route_strategy` varchar(50) DEFAULT NULL,
  `executor_handler` varchar(255) DEFAULT NULL,
  `executor_param` varchar(512) DEFAULT NULL,
  `executor_block_strategy` varchar(50) DEFAULT NULL,
  `executor_timeout` int(11) NOT NULL DEFAULT '0',
  `executor_fail_retry_count` int(11) NOT NULL DEFAULT '0',
  `glue_type` varchar(50) NOT NULL,
  `glue_source` mediumtext,
  `glue_remark` varchar(128) DEFAULT NULL,
  `glue_updatetime` datetime DEFAULT NULL,
  `child_jobid` varchar(255) DEFAULT NULL,
  `trigger_status` tinyint(4) NOT NULL DEFAULT '0',
  `trigger_last_time` bigint(13) NOT NULL DEFAULT '0',
  `trigger_next_time` bigint(13) NOT NULL DEFAULT '0',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE `xxl_job_group` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `app_name` varchar(64) NOT NULL,
  `title` varchar(64) NOT NULL,
  `address_type` tinyint(4) NOT NULL DEFAULT '0',
  `address_list` text,
  `update_time` datetime DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
/*!40000 ALTER TABLE `xxl_job_info` DISABLE KEYS */;
INSERT INTO `xxl_job_info` VALUES (1,1,'清理','2026-01-01 00:00:00','2026-01-01 00:00:00','ann','ann@example.org','CRON','0 0 3 ? * MON-FRI','FIRE_ONCE_NOW','ROUND','cleanJob','','SERIAL_EXECUTION',90,3,'BEAN','','init','2026-01-01 00:00:00','2',1,0,0),(2,1,'Report','2026-01-01 00:00:00',NULL,'ann','','FIX_RATE','45','DO_NOTHING','FIRST','','all of it','DISCARD_LATER',0,0,'GLUE_SHELL','#!/bin/bash\necho \"it\'s $1\"; exit 0\n','x','2026-01-01 00:00:00','',0,0,0);
INSERT INTO `xxl_job_info` VALUES (3,1,'Everywhere','2026-01-01 00:00:00',NULL,'bob','','NONE','','DO_NOTHING','SHARDING_BROADCAST','','','COVER_EARLY',0,0,'GLUE_PYTHON','print(1)','x','2026-01-01 00:00:00','',1,0,0);
INSERT INTO `xxl_job_group` VALUES (1,'app','App',0,NULL,NULL);
